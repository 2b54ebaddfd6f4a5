//! Pages generated from documents of the contract. Tests keep these documents equal to the code.

mod help;
mod openapi;
mod schema;
mod tools;

use std::path::Path;

/// A page of the site that is made from a document of the repository.
#[derive(Debug)]
pub(super) struct Generated {
    /// Document, from the root of the repository.
    source: &'static str,
    /// Path in the site.
    pub(super) page: &'static str,
    make: fn(&str) -> anyhow::Result<String>,
}

const GENERATED: [Generated; 4] = [
    Generated { source: "tests/golden/help.txt", page: "reference/help.md", make: help::page },
    Generated { source: "crates/mcp/tools.json", page: "reference/tools.md", make: tools::page },
    Generated { source: "crates/http/openapi.json", page: "reference/routes.md", make: openapi::page },
    Generated {
        source: "crates/actions/golden/definition_schema.json",
        page: "reference/machine_schema.md",
        make: schema::page,
    },
];

/// Returns the page that is generated from a document, if there is one.
pub(super) fn generated(source: &Path) -> Option<&'static Generated> {
    GENERATED.iter().find(|generated| source == Path::new(generated.source))
}

impl Generated {
    /// Makes the page from the text of the document.
    pub(super) fn make(&self, document: &str) -> anyhow::Result<String> {
        (self.make)(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documentation::read;
    use crate::markdown;

    #[test]
    fn generated_pages_have_descriptions() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for generated in &GENERATED {
            let page = generated.make(&read(root, Path::new(generated.source)).unwrap()).unwrap();
            assert!(page.starts_with("# ") && markdown::first_sentence(&page).is_some(), "{generated:?}");
            assert!(markdown::anchors(&page).len() > 10, "{page}");
            // A page without a row was made from a document in another form.
            assert!(page.lines().filter(|line| line.starts_with("| ")).count() > 50 || page.contains("````text"));
        }
    }

    #[test]
    fn document_in_another_form_is_an_error() {
        for generated in &GENERATED {
            assert!(generated.make("[1]").is_err(), "{generated:?}");
        }
    }
}
