//! The order in which services start.

use std::collections::{BTreeMap, BTreeSet};

use crate::declaration::ServiceDeclaration;

/// Services that cannot be ordered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// There is no such service.
    #[error("there is no service '{name}'{}", list(.known))]
    Unknown {
        /// The requested name.
        name: String,
        /// The declared names.
        known: Vec<String>,
    },
    /// A service needs one that is not declared.
    #[error("service '{service}' starts after '{needed}', which is not declared")]
    Missing {
        /// The service.
        service: String,
        /// The name in its `after`.
        needed: String,
    },
    /// Services need each other.
    #[error("services wait for each other: {}; remove one from its 'after'", .0.join(" → "))]
    Cycle(Vec<String>),
}

fn list(known: &[String]) -> String {
    match known.is_empty() {
        true => "; declare it as [services.NAME] in steplatch.toml".to_owned(),
        false => format!("; declared are {}", known.join(", ")),
    }
}

/// Returns the requested services and all that they need, each after those that it needs.
///
/// # Errors
/// If a name is not declared, or services need each other.
pub fn start_order(
    services: &BTreeMap<String, ServiceDeclaration>,
    requested: &[String],
) -> Result<Vec<String>, OrderError> {
    let (mut ordered, mut placed) = (Vec::new(), BTreeSet::new());
    for name in requested {
        if !services.contains_key(name) {
            let known = services.keys().cloned().collect();
            return Err(OrderError::Unknown { name: name.clone(), known });
        }
        place(services, name, &mut Vec::new(), &mut ordered, &mut placed)?;
    }
    Ok(ordered)
}

fn place(
    services: &BTreeMap<String, ServiceDeclaration>,
    name: &str,
    path: &mut Vec<String>,
    ordered: &mut Vec<String>,
    placed: &mut BTreeSet<String>,
) -> Result<(), OrderError> {
    if placed.contains(name) {
        return Ok(());
    }
    if let Some(begin) = path.iter().position(|above| above == name) {
        let cycle = path[begin..].iter().cloned().chain([name.to_owned()]);
        return Err(OrderError::Cycle(cycle.collect()));
    }
    let Some(service) = services.get(name) else {
        let service = path.last().cloned().unwrap_or_default();
        return Err(OrderError::Missing { service, needed: name.to_owned() });
    };
    path.push(name.to_owned());
    for needed in &service.after {
        place(services, needed, path, ordered, placed)?;
    }
    path.pop();
    placed.insert(name.to_owned());
    ordered.push(name.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn services(needs: &[(&str, &[&str])]) -> BTreeMap<String, ServiceDeclaration> {
        let declare = |(name, after): &(&str, &[&str])| {
            let table = json!({"command": "true", "after": after});
            ((*name).to_owned(), ServiceDeclaration::parse(name, &table).unwrap())
        };
        needs.iter().map(declare).collect()
    }

    #[test]
    fn needed_services_come_first_and_once() {
        let services = services(&[("web", &["api", "db"]), ("api", &["db"]), ("db", &[]), ("other", &[])]);
        assert_eq!(start_order(&services, &["web".to_owned()]).unwrap(), ["db", "api", "web"]);
        let all: Vec<String> = services.keys().cloned().collect();
        assert_eq!(start_order(&services, &all).unwrap(), ["db", "api", "other", "web"]);
    }

    #[test]
    fn cycles_and_missing_names_are_errors() {
        let error =
            |needs: &[(&str, &[&str])]| start_order(&services(needs), &["a".to_owned()]).unwrap_err().to_string();
        assert_eq!(
            error(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]),
            "services wait for each other: b → c → b; remove one from its 'after'"
        );
        assert_eq!(error(&[("a", &["b"])]), "service 'a' starts after 'b', which is not declared");
        assert_eq!(error(&[("b", &[])]), "there is no service 'a'; declared are b");
        assert_eq!(error(&[("a", &["a"])]), "services wait for each other: a → a; remove one from its 'after'");
    }
}
