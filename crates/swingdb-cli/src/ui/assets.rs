//! The files of the page. They are part of the program, and load nothing from elsewhere.

use super::http::Response;

const SCRIPT: &str = "text/javascript";

/// The file at a path.
pub fn file(path: &str) -> Option<Response> {
    let (kind, text) = match path {
        "/" => ("text/html", include_str!("page/index.html")),
        "/style.css" => ("text/css", include_str!("page/style.css")),
        "/icon.svg" => ("image/svg+xml", include_str!("page/icon.svg")),
        "/main.js" => (SCRIPT, include_str!("page/main.js")),
        "/dom.js" => (SCRIPT, include_str!("page/dom.js")),
        "/api.js" => (SCRIPT, include_str!("page/api.js")),
        "/databases.js" => (SCRIPT, include_str!("page/databases.js")),
        "/lineage.js" => (SCRIPT, include_str!("page/lineage.js")),
        "/tables.js" => (SCRIPT, include_str!("page/tables.js")),
        "/notebook.js" => (SCRIPT, include_str!("page/notebook.js")),
        "/cell.js" => (SCRIPT, include_str!("page/cell.js")),
        "/result.js" => (SCRIPT, include_str!("page/result.js")),
        "/document.js" => (SCRIPT, include_str!("page/document.js")),
        _ => return None,
    };
    Some(Response::file(kind, text))
}

#[cfg(test)]
mod tests {
    /// What is shown comes from other people: names of tables and values. It only ever becomes text
    /// of the document, and the page loads nothing from another place.
    #[test]
    fn the_page_makes_no_markup_of_text() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ui/page");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!text.contains(word), "{}: {word}", path.display());
            }
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("://"), "{}: an address elsewhere", path.display());
            let name = path.file_name().unwrap().to_str().unwrap();
            let at = if name == "index.html" { "/".to_string() } else { format!("/{name}") };
            assert!(super::file(&at).is_some(), "{name} is not served");
        }
    }
}
