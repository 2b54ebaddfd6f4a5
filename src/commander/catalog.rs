//! The names of all targets, and suggestions for a name that is unknown or has another kind.

use strsim::jaro_winkler;

use super::line::{Kind, Target};

/// The names of all targets, as of the last request to the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    pub(crate) nodes: Vec<String>,
    pub(crate) graphs: Vec<String>,
    pub(crate) workflows: Vec<String>,
}

/// Maximum number of names in the message about an unknown name.
const MAX_LISTED_NAMES: usize = 20;

/// Minimum Jaro-Winkler similarity of a name and its suggestion.
const MIN_SIMILARITY: f64 = 0.85;

impl Catalog {
    pub(crate) fn names(&self, kind: Kind) -> &[String] {
        match kind {
            Kind::Node => &self.nodes,
            Kind::Graph => &self.graphs,
            Kind::Workflow => &self.workflows,
        }
    }

    /// Resolves a target: a call of a node may name a graph, because a graph is a node.
    ///
    /// # Errors
    /// If no target has this name; the text lists the existing names. If a target of another kind has it; the text
    /// shows the right notation.
    pub(crate) fn resolve_target(&self, target: &Target) -> Result<Target, String> {
        let Target { kind, name } = target;
        let has = |kind: Kind| self.names(kind).contains(name);
        if has(*kind) || target.file().is_some() {
            return Ok(target.clone());
        }
        if *kind == Kind::Node && has(Kind::Graph) {
            return Ok(Target { kind: Kind::Graph, name: name.clone() });
        }
        let shown_name = crate::print::visible(&crate::print::fitted(name, 80));
        if let Some(other) = Kind::ALL.into_iter().find(|other| has(*other)) {
            return Err(format!("'{shown_name}' is a {}; write {}{shown_name}", other.noun(), other.sigil()));
        }
        Err(format!(
            "there is no {} '{shown_name}'{}; {}",
            kind.noun(),
            self.suggestion(*kind, name),
            self.list_names(*kind)
        ))
    }

    /// Returns `, did you mean @greet?` for the most similar name of any kind, or an empty text.
    fn suggestion(&self, kind: Kind, name: &str) -> String {
        let mut best = (MIN_SIMILARITY, None);
        // The requested kind comes first, so that it wins a tie.
        for other in std::iter::once(kind).chain(Kind::ALL) {
            for known in self.names(other) {
                let similarity = jaro_winkler(known, name);
                if similarity > best.0 {
                    best = (similarity, Some((other, known)));
                }
            }
        }
        best.1.map_or_else(String::new, |(other, known)| format!(", did you mean {}{known}?", other.sigil()))
    }

    fn list_names(&self, kind: Kind) -> String {
        let noun = kind.noun();
        match self.names(kind) {
            [] if kind == Kind::Workflow => {
                "no workflow is saved here; run one from a file with %./FILE.json or %./FILE.py".to_owned()
            }
            [] => format!("no {noun} is declared here; see /help {noun}s"),
            names => {
                let listed_names: Vec<String> =
                    names.iter().take(MAX_LISTED_NAMES).map(|name| format!("{}{name}", kind.sigil())).collect();
                let more = names.len().saturating_sub(MAX_LISTED_NAMES);
                let more = if more == 0 { String::new() } else { format!(" and {more} more: /{noun}s") };
                format!("there is {}{more}", listed_names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target_of(line: &str) -> Result<String, String> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let catalog = Catalog {
            nodes: names(&["fails", "greet", "identity"]),
            graphs: names(&["both"]),
            workflows: names(&["release"]),
        };
        let Ok(super::super::line::Line::Call { target, .. }) = super::super::line::read(line) else {
            panic!("{line} calls nothing")
        };
        catalog.resolve_target(&target).map(|target| target.to_string())
    }

    #[test]
    fn sigil_determines_the_kind_and_a_graph_is_a_node_too() {
        for (line, target) in
            [("@greet", "@greet"), ("#both", "#both"), ("@both", "#both"), ("%release", "%release"), ("%a.py", "%a.py")]
        {
            assert_eq!(target_of(line), Ok(target.to_owned()));
        }
    }

    #[test]
    fn wrong_sigil_and_unknown_name_are_explained() {
        let table = [
            ("@release", "'release' is a workflow; write %release"),
            ("#greet", "'greet' is a node; write @greet"),
            ("%both", "'both' is a graph; write #both"),
            ("@gret", "there is no node 'gret', did you mean @greet?; there is @fails, @greet, @identity"),
            ("@relaese", "there is no node 'relaese', did you mean %release?; there is @fails, @greet, @identity"),
            ("#zzz", "there is no graph 'zzz'; there is #both"),
        ];
        for (line, error) in table {
            assert_eq!(target_of(line), Err(error.to_owned()), "{line}");
        }
        let nothing =
            Catalog::default().resolve_target(&Target { kind: Kind::Workflow, name: "x".to_owned() }).unwrap_err();
        assert!(nothing.contains("no workflow is saved here"), "{nothing}");
    }
}
