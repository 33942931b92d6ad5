//! Which crate may depend on which: arrows point down only, and what is not in the table is not allowed.

use serde_json::Value;

use super::Violation;

/// What each crate of `crates/` may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("kumiki-net", &[]),
    ("kumiki-derive", &[]),
    ("kumiki-mem", &["kumiki-net", "kumiki-derive"]),
    ("kumiki", &["kumiki-mem"]),
    ("kumiki-c", &["kumiki"]),
    ("kumiki-run", &["kumiki-net"]),
    ("kumiki-sim", &["kumiki-net"]),
    ("kumiki-xmp", &[]),
    ("kumiki-cli", &["kumiki", "kumiki-run", "kumiki-sim", "kumiki-xmp"]),
    // For the documents that are made from the command's own tables.
    ("xtask", &["kumiki-cli"]),
];

/// What a crate may use in its tests beside what it may use anyway.
const ARROWS_IN_TESTS: &[(&str, &[&str])] = &[("kumiki-mem", &["kumiki-sim"]), ("kumiki", &["kumiki-sim"])];

/// Crates whose tests may use every other: they test the whole from the top.
const TESTS_USE_ALL: &[&str] = &["kumiki-cli"];

/// Arrows that break the rule for a reason: from, to, why. One that is no longer needed fails.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Folders of crates that nothing depends on, which may use every crate.
const LEAVES: [&str; 4] = ["tests", "examples", "benches", "fuzz"];

/// Checks the output of `cargo metadata --no-deps --format-version 1`.
pub(super) fn check(metadata: &str) -> Result<Vec<Violation>, String> {
    check_with(metadata, EXCEPTIONS)
}

fn check_with(metadata: &str, exceptions: &[(&str, &str, &str)]) -> Result<Vec<Violation>, String> {
    let packages = parse(metadata)?;
    let mut found = Vec::new();
    let mut used = vec![false; exceptions.len()];
    for package in packages.iter().filter(|package| !package.is_leaf()) {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            found.push(Violation::new(
                &package.manifest,
                1,
                format!("{} is not in the table of crates", package.name),
                "say in xtask/src/tidy/arrows.rs what it may use",
            ));
            continue;
        };
        for arrow in package.arrows.iter().filter(|arrow| packages.iter().any(|other| other.name == arrow.to))
        {
            if allowed.contains(&arrow.to.as_str())
                || (arrow.in_tests && allowed_in_tests(package, &arrow.to))
            {
                continue;
            }
            if let Some(at) =
                exceptions.iter().position(|(from, to, _)| *from == package.name && *to == arrow.to)
            {
                used[at] = true;
                continue;
            }
            let place = if arrow.in_tests { " in its tests" } else { "" };
            found.push(Violation::new(
                &package.manifest,
                1,
                format!("{} may not depend on {}{place}", package.name, arrow.to),
                "go through a crate it may use, or move the code down",
            ));
        }
    }
    for ((from, to, _), _) in exceptions.iter().zip(used).filter(|(_, used)| !used) {
        found.push(Violation::new(
            "xtask/src/tidy/arrows.rs",
            1,
            format!("the exception {from} → {to} is not needed"),
            "delete it",
        ));
    }
    Ok(found)
}

/// A crate names itself in its tests to have its own features there.
fn allowed_in_tests(package: &Package, to: &str) -> bool {
    to == package.name
        || TESTS_USE_ALL.contains(&package.name.as_str())
        || ARROWS_IN_TESTS.iter().any(|(from, allowed)| *from == package.name && allowed.contains(&to))
}

struct Package {
    name: String,
    /// From the root of the repository.
    manifest: String,
    arrows: Vec<Arrow>,
}

struct Arrow {
    to: String,
    in_tests: bool,
}

impl Package {
    fn is_leaf(&self) -> bool {
        LEAVES.iter().any(|folder| self.manifest.starts_with(&format!("{folder}/")))
    }
}

fn parse(metadata: &str) -> Result<Vec<Package>, String> {
    let strange = || "cargo metadata has a form that xtask does not know".to_owned();
    let metadata: Value =
        serde_json::from_str(metadata).map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
    let root = metadata["workspace_root"].as_str().ok_or_else(strange)?;
    let mut packages = Vec::new();
    for package in metadata["packages"].as_array().ok_or_else(strange)? {
        let manifest = package["manifest_path"].as_str().ok_or_else(strange)?;
        let mut arrows = Vec::new();
        for dependency in package["dependencies"].as_array().ok_or_else(strange)? {
            let to = dependency["name"].as_str().ok_or_else(strange)?.to_owned();
            arrows.push(Arrow { to, in_tests: dependency["kind"] == "dev" });
        }
        packages.push(Package {
            name: package["name"].as_str().ok_or_else(strange)?.to_owned(),
            manifest: manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/').to_owned(),
            arrows,
        });
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A name, its folder, and its dependencies with their kinds.
    type MadeUp<'a> = (&'a str, &'a str, &'a [(&'a str, Value)]);

    fn metadata(packages: &[MadeUp<'_>]) -> String {
        let package = |(name, folder, dependencies): &MadeUp<'_>| {
            let dependencies: Vec<Value> =
                dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
            json!({"name": name, "manifest_path": format!("/r/{folder}/Cargo.toml"), "dependencies": dependencies})
        };
        json!({"workspace_root": "/r", "packages": packages.iter().map(package).collect::<Vec<_>>()})
            .to_string()
    }

    #[test]
    fn arrows_down_and_foreign_crates_pass() {
        let text = metadata(&[
            ("kumiki-net", "crates/net", &[("libc", json!(null))]),
            ("kumiki-mem", "crates/mem", &[("kumiki-net", json!(null)), ("kumiki-sim", json!("dev"))]),
            ("kumiki-sim", "crates/sim", &[("kumiki-net", json!(null)), ("kumiki-sim", json!("dev"))]),
            ("kumiki-cli", "crates/cli", &[("kumiki-mem", json!("dev"))]),
            ("conformance", "tests/conformance", &[("kumiki-mem", json!(null))]),
        ]);
        assert_eq!(check(&text), Ok(vec![]));
    }

    #[test]
    fn an_arrow_up_is_found() {
        let text = metadata(&[
            ("kumiki-net", "crates/net", &[("kumiki-mem", json!(null))]),
            ("kumiki-mem", "crates/mem", &[]),
        ]);
        let found = check(&text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/net/Cargo.toml");
        assert_eq!(found[0].what, "kumiki-net may not depend on kumiki-mem");
    }

    #[test]
    fn what_is_allowed_in_tests_is_found_elsewhere() {
        for kind in [json!(null), json!("build")] {
            let text = metadata(&[
                ("kumiki-sim", "crates/sim", &[]),
                ("kumiki-mem", "crates/mem", &[("kumiki-sim", kind)]),
            ]);
            assert_eq!(check(&text).unwrap().len(), 1);
        }
    }

    #[test]
    fn a_crate_that_nobody_thought_of_is_found() {
        let text = metadata(&[("kumiki-new", "crates/new", &[])]);
        assert!(check(&text).unwrap()[0].what.contains("not in the table"));
    }

    #[test]
    fn an_exception_allows_its_arrow_and_is_found_when_unused() {
        let exceptions = [("kumiki-cli", "kumiki-net", "the agent is a net thing")];
        let with = metadata(&[
            ("kumiki-net", "crates/net", &[]),
            ("kumiki-cli", "crates/cli", &[("kumiki-net", json!(null))]),
        ]);
        assert_eq!(check(&with).unwrap().len(), 1);
        assert_eq!(check_with(&with, &exceptions), Ok(vec![]));
        let without = metadata(&[("kumiki-cli", "crates/cli", &[])]);
        assert!(check_with(&without, &exceptions).unwrap()[0].what.contains("not needed"));
    }

    #[test]
    fn metadata_of_another_form_is_an_error() {
        assert!(check("{}").is_err());
        assert!(check("no").is_err());
    }
}
