//! `swingdb-remote`: fetches objects of S3, of Google Cloud Storage and of the web.
//!
//! A program of its own, which the database starts for an address such as `s3://bucket/a.parquet`:
//! nobody else pays for the clients of these stores, and the credentials are where other programs
//! have them, in the environment.
//!
//! * `swingdb-remote list ADDRESS` writes the addresses that a pattern names, in order, each as a
//!   text of JSON on a line.
//! * `swingdb-remote get ADDRESS` writes the bytes of one object.
//! * `swingdb-remote serve` reads requests for parts of objects, and answers them ([`serve`]).
//!
//! Exit status: 0 all is written, 1 an error, which is on the standard error, 2 wrong usage, 3 no
//! such object. What was written before an error is to be thrown away.

mod address;
mod failure;
mod fetch;
mod serve;

use address::Address;
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "usage: swingdb-remote get|list ADDRESS
       swingdb-remote serve

Fetches an object of s3://, gs://, https:// or http://; lists those that a pattern names; answers
requests for parts of objects, which come as lines of JSON on the standard input. SwingDB
starts this program for addresses in SQL. Credentials are taken from the environment, as AWS and
Google have them: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL,
AWS_ALLOW_HTTP=true, AWS_SKIP_SIGNATURE=true (public buckets), GOOGLE_APPLICATION_CREDENTIALS.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["get", address] => run(address, false),
        ["list", address] => run(address, true),
        ["serve"] => serve::serve(&mut std::io::stdout().lock()),
        ["--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        ["--version"] => {
            println!("swingdb-remote {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.text());
            ExitCode::from(failure.status())
        }
    }
}

fn run(address: &str, list: bool) -> Result<(), Failure> {
    let address = Address::parse(address)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::message)?;
    let mut output = std::io::stdout().lock();
    match list {
        true => {
            for found in runtime.block_on(fetch::list(&address))? {
                writeln!(output, "{}", serde_json::Value::String(found))?;
            }
        }
        false => runtime.block_on(fetch::get(&address, &mut output))?,
    }
    output.flush()?;
    Ok(())
}
