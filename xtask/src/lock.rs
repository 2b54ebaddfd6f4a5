//! The limit on the number of packages in the product, so that each new package is a decision.

use std::path::Path;

/// Maximum number of packages in `Cargo.lock`, including the packages of this workspace.
///
/// Raise it with the change that needs it, and give the reason in the commit: which package brings them, what it does
/// better than the present ones, and the considered alternatives.
const MAX_PACKAGES: usize = 555;

#[test]
fn product_is_built_from_the_decided_number_of_packages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let lock: toml::Table = std::fs::read_to_string(root.join("Cargo.lock")).unwrap().parse().unwrap();
    let packages = lock["package"].as_array().unwrap().len();
    assert!(packages > 100, "{packages}");
    assert!(
        packages <= MAX_PACKAGES,
        "Cargo.lock has {packages} packages, {MAX_PACKAGES} are allowed. `cargo tree --invert PACKAGE` shows what needs a \
         package, `cargo tree --duplicates` which are there twice. If the new ones are worth it, raise MAX_PACKAGES in \
         {} and say in the commit which package brings them and what else was considered.",
        file!()
    );
}
