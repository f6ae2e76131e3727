//! Addresses: which store, and which object in it.

use crate::failure::Failure;
use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use std::time::Duration;
use url::Url;

/// How often a request is made again, and for how long.
const RETRIES: usize = 3;
const RETRY_PATIENCE: Duration = Duration::from_secs(30);
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    scheme: String,
    /// The bucket; the host and its port.
    pub place: String,
    /// The name of the object; the path.
    pub key: String,
}

impl Address {
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::message(format!("{text:?} {why}"));
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("is no address"))?;
        let (place, key) = rest.split_once('/').unwrap_or((rest, ""));
        if place.is_empty() || key.is_empty() {
            return Err(wrong("names no object"));
        }
        let address = |place: &str, key: &str| Address {
            scheme: scheme.to_string(),
            place: place.to_string(),
            key: key.to_string(),
        };
        match scheme {
            "s3" | "s3a" | "gs" | "gcs" => Ok(address(place, key)),
            "http" | "https" => {
                let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
                if url.query().is_some() || url.fragment().is_some() {
                    return Err(wrong("has a part behind ? or #: fetch it first, by curl"));
                }
                if !url.username().is_empty() || url.password().is_some() {
                    return Err(wrong("has a name or a password: fetch it first, by curl"));
                }
                Ok(address(&url[url::Position::BeforeHost..url::Position::AfterPort], url.path()))
            }
            _ => Err(wrong("is of a kind that is not known: s3, gs, https and http are")),
        }
    }

    /// The address of all objects that the same client reads.
    pub fn root(&self) -> String {
        format!("{}://{}", self.scheme, self.place)
    }

    /// Whether it is of the web.
    pub fn is_web(&self) -> bool {
        self.scheme.starts_with("http")
    }

    /// The name of the object, as its store has it.
    pub fn path(&self) -> Result<Path, Failure> {
        let path = match self.is_web() {
            true => Path::from_url_path(&self.key),
            false => Path::parse(&self.key),
        };
        path.map_err(Failure::message)
    }

    /// The address of another object of the same store.
    pub fn beside(&self, path: &Path) -> String {
        format!("{}://{}/{path}", self.scheme, self.place)
    }

    /// The client of its store.
    pub fn store(&self) -> Result<Box<dyn ObjectStore>, Failure> {
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_PATIENCE,
            ..RetryConfig::default()
        };
        Ok(match self.scheme.as_str() {
            "s3" | "s3a" => {
                let builder = AmazonS3Builder::from_env().with_bucket_name(&self.place);
                Box::new(builder.with_retry(retry).build()?)
            }
            "gs" | "gcs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&self.place);
                Box::new(builder.with_retry(retry).build()?)
            }
            _ => {
                // A file of the web comes as one answer, however long it is; `fetch` watches it.
                let options = ClientOptions::new()
                    .with_allow_http(self.scheme == "http")
                    .with_connect_timeout(CONNECT_PATIENCE)
                    .with_timeout_disabled();
                let builder =
                    HttpBuilder::new().with_url(format!("{}://{}", self.scheme, self.place));
                Box::new(builder.with_retry(retry).with_client_options(options).build()?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let parts = |text| Address::parse(text).map(|a| (a.scheme, a.place, a.key)).ok();
        let three = |a: &str, b: &str, c: &str| Some((a.into(), b.into(), c.into()));
        assert_eq!(parts("s3://bucket/a b/c?.csv"), three("s3", "bucket", "a b/c?.csv"));
        assert_eq!(parts("gs://b/x"), three("gs", "b", "x"));
        assert_eq!(parts("https://h:8443/a/b%20c.csv"), three("https", "h:8443", "/a/b%20c.csv"));
        assert_eq!(parts("http://[::1]:80/a"), three("http", "[::1]", "/a"));
        for wrong in [
            "",
            "a.csv",
            "s3://",
            "s3://b",
            "s3://b/",
            "s3:///a",
            "ftp://h/a",
            "https://h",
            "https://h/a?token=1",
            "https://u:p@h/a",
            "https://h/a#b",
            "https://h:x/a",
        ] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_stay_what_they_are() {
        let path = |text| Address::parse(text).unwrap().path().map(|path| path.to_string()).ok();
        assert_eq!(path("s3://b/year=2024/a b%20c.csv").as_deref(), Some("year=2024/a b%20c.csv"));
        assert_eq!(path("https://h/a%20b.csv").as_deref(), Some("a b.csv"));
        assert_eq!(path("s3://b/a//b"), None);
        let address = Address::parse("s3://b/x/*.csv").unwrap();
        assert_eq!(address.beside(&Path::from("x/1.csv")), "s3://b/x/1.csv");
    }
}
