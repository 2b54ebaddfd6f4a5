use proptest::prelude::*;

use super::*;

fn key(id: &str) -> Key {
    Key::new("main", id)
}

fn names_of(known: &BTreeMap<Key, String>, entries: &[(&str, &str)]) -> BTreeMap<Key, String> {
    assign(known, &BTreeSet::new(), entries.iter().map(|(id, title)| (key(id), *title)))
}

#[test]
fn title_becomes_a_name() {
    let cases = [
        ("Deploy", "workflow_deploy"),
        ("  Deploy -- to  Stage! ", "workflow_deploy_to_stage"),
        ("release/v2.1", "workflow_release_v2_1"),
        ("__Private__thing__", "workflow_private_thing"),
        ("Größe", "workflow_gr_e"),
        ("\u{212a}elvin", "workflow_kelvin"),
        (
            "a very long title of a workflow that somebody wrote without thinking of names",
            "workflow_a_very_long_title_of_a_workflow_that_somebody_wrote_wit",
        ),
    ];
    for (title, name) in cases {
        let names = names_of(&BTreeMap::new(), &[("1", title)]);
        assert_eq!(names[&key("1")], name, "{title:?}");
    }
}

#[test]
fn title_without_letters_is_named_by_its_id() {
    let names = names_of(&BTreeMap::new(), &[("1", "日本"), ("2", "!!!"), ("3", "日本")]);
    assert_eq!(names[&key("1")], "workflow_b02d920a");
    let unique_names: BTreeSet<&String> = names.values().collect();
    assert_eq!(unique_names.len(), 3);
}

#[test]
fn workflows_with_the_same_title_all_have_a_suffix() {
    let names = names_of(&BTreeMap::new(), &[("1", "Deploy"), ("2", "deploy!"), ("3", "Build")]);
    assert_eq!(names[&key("3")], "workflow_build");
    let (first, second) = (&names[&key("1")], &names[&key("2")]);
    assert!(first.starts_with("workflow_deploy_") && second.starts_with("workflow_deploy_") && first != second);
    assert_eq!(&names_of(&names, &[("1", "Deploy")])[&key("1")], first, "the suffix stays without the other workflow");
}

#[test]
fn first_workflow_keeps_the_name_without_a_suffix() {
    let first = names_of(&BTreeMap::new(), &[("1", "Deploy")]);
    let second = names_of(&first, &[("2", "Deploy"), ("1", "Deploy")]);
    assert_eq!(second[&key("1")], "workflow_deploy");
    assert_ne!(second[&key("2")], "workflow_deploy");
    let third = names_of(&first, &[("2", "Deploy")]);
    assert_eq!(third[&key("2")], second[&key("2")], "the name stays reserved while its owner is missing");
}

#[test]
fn changed_title_results_in_a_new_name() {
    let first = names_of(&BTreeMap::new(), &[("1", "Deploy")]);
    assert_eq!(names_of(&first, &[("1", "DEPLOY?")])[&key("1")], "workflow_deploy");
    assert_eq!(names_of(&first, &[("1", "Release")])[&key("1")], "workflow_release");
}

#[test]
fn title_with_a_suffix_takes_no_existing_name() {
    let deploys = names_of(&BTreeMap::new(), &[("1", "Deploy"), ("2", "Deploy")]);
    let title = deploys[&key("1")].strip_prefix(PREFIX).expect("a prefix").to_owned();
    let names = names_of(&BTreeMap::new(), &[("1", "Deploy"), ("2", "Deploy"), ("3", &title)]);
    let unique_names: BTreeSet<&String> = names.values().collect();
    assert_eq!(unique_names.len(), 3, "{names:?}");
    let later = names_of(&deploys, &[("3", &title)]);
    assert_ne!(later[&key("3")], deploys[&key("1")]);
}

#[test]
fn titles_with_all_suffixes_take_no_existing_name() {
    let names: Vec<String> = suffixed_names(&key("1"), "deploy").take(20).collect();
    let ids: Vec<String> = (2..30).map(|id| id.to_string()).collect();
    let titles = names.iter().map(|name| name.strip_prefix(PREFIX).expect("a prefix"));
    let mut entries: Vec<(&str, &str)> = ids.iter().map(String::as_str).zip(titles).collect();
    entries.extend([("1", "Deploy"), ("0", "Deploy")]);
    let assigned = names_of(&BTreeMap::new(), &entries);
    let unique_names: BTreeSet<&String> = assigned.values().collect();
    assert_eq!(unique_names.len(), entries.len());
    let taken: BTreeSet<String> = names.into_iter().collect();
    let assigned = assign(&BTreeMap::new(), &taken, [(key("1"), "Deploy"), (key("0"), "Deploy")]);
    assert!(assigned.values().all(|name| !taken.contains(name) && name.len() <= 64), "{assigned:?}");
}

#[test]
fn same_id_at_two_services_is_two_workflows() {
    let entries = [(Key::new("a", "1"), "Deploy"), (Key::new("b", "1"), "Deploy")];
    let names = assign(&BTreeMap::new(), &BTreeSet::new(), entries);
    let unique_names: BTreeSet<&String> = names.values().collect();
    assert_eq!(unique_names.len(), 2);
}

#[test]
fn taken_name_is_not_assigned() {
    let taken = BTreeSet::from(["workflow_deploy".to_owned()]);
    let names = assign(&BTreeMap::new(), &taken, [(key("1"), "Deploy")]);
    assert_eq!(names[&key("1")], "workflow_deploy_b02d920a");
}

/// Titles from a small set, so that many are equal.
fn title() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["Deploy", "deploy!", "Build", "日本", "", "workflow deploy", "a"])
            .prop_map(str::to_owned),
        "[a-cA-C _!é]{0,6}",
        "[a-z]{60,80}",
        "deploy [0-9a-f]{8}",
        "\\PC{0,30}",
    ]
}

fn entries() -> impl Strategy<Value = Vec<(String, String)>> {
    let ids = prop::collection::btree_map("[0-9a-d]{1,2}", title(), 0..25);
    ids.prop_map(|entries| entries.into_iter().collect::<Vec<_>>()).prop_shuffle()
}

fn assigned_names(known: &BTreeMap<Key, String>, entries: &[(String, String)]) -> BTreeMap<Key, String> {
    assign(known, &BTreeSet::new(), entries.iter().map(|(id, title)| (key(id), title.as_str())))
}

proptest! {
    #[test]
    fn names_are_unique_and_valid(entries in entries(), taken in prop::collection::btree_set("workflow_[a-c]{1,2}", 0..6)) {
        let names = assign(&BTreeMap::new(), &taken, entries.iter().map(|(id, title)| (key(id), title.as_str())));
        prop_assert_eq!(names.len(), entries.len());
        let unique_names: BTreeSet<&String> = names.values().collect();
        prop_assert_eq!(unique_names.len(), names.len());
        for name in names.values() {
            prop_assert!(name.len() <= 64 && name.len() > PREFIX.len() && name.starts_with(PREFIX), "{}", name);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'), "{}", name);
            prop_assert!(!name.contains("__"), "{}", name);
            prop_assert!(!taken.contains(name));
        }
    }

    #[test]
    fn names_do_not_depend_on_the_order_of_entries(known in entries(), entries in entries(), seed in any::<u64>()) {
        let known = assigned_names(&BTreeMap::new(), &known);
        let mut reordered = entries.clone();
        reordered.reverse();
        let middle = if entries.is_empty() { 0 } else { seed as usize % entries.len() };
        reordered.rotate_left(middle);
        prop_assert_eq!(assigned_names(&known, &entries), assigned_names(&known, &reordered));
    }

    #[test]
    fn changes_to_other_workflows_do_not_affect_a_name(
        before in entries(),
        after in entries(),
        stays in prop::collection::vec(any::<bool>(), 25),
    ) {
        let first = assigned_names(&BTreeMap::new(), &before);
        let mut next: BTreeMap<String, String> = after.into_iter().collect();
        let unchanged: Vec<(String, String)> =
            before.iter().zip(&stays).filter(|(_, stays)| **stays).map(|(entry, _)| entry.clone()).collect();
        next.extend(unchanged.clone());
        let next: Vec<(String, String)> = next.into_iter().collect();
        let second = assigned_names(&first, &next);
        for (id, _) in &unchanged {
            prop_assert_eq!(&second[&key(id)], &first[&key(id)]);
        }
        for (key, name) in &second {
            for (other_key, other_name) in &first {
                prop_assert!(key == other_key || name != other_name, "{:?} has the name of {:?}", key, other_key);
            }
        }
        // A workflow that returns keeps its name, whatever happens in between.
        let mut known = first.clone();
        for (key, name) in &second {
            known.entry(key.clone()).or_insert_with(|| name.clone());
        }
        let third = assigned_names(&known, &before);
        prop_assert_eq!(third, first);
    }
}
