//! docs/environment.md: the table of environment variables, made from the code that reads them.
//!
//! The `kumiki` command prints it; `cargo xtask docs` writes it, and tidy compares.

use std::path::Path;

use crate::output_of;
use crate::tidy::Violation;

const PAGE: &str = "docs/environment.md";
const REMEDY: &str = "run `cargo xtask docs`";
/// How the command is built: of the whole workspace, and with an example, so that cargo chooses the features of dependencies
/// as it does for the tests. Then what they have built, or will, is not built a second time.
const BUILD: [&str; 8] =
    ["build", "--workspace", "--bin", "kumiki", "--example", "hello", "--quiet", "--message-format=json"];

/// Writes the page.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let Some(text) = generated(root)? else {
        return Err(format!("crates/cli is not there, so {PAGE} cannot be made"));
    };
    std::fs::write(root.join(PAGE), text).map_err(|error| format!("{PAGE} could not be written: {error}"))?;
    println!("wrote {PAGE}");
    Ok(())
}

/// Checks that the page is what the code would write now.
pub(crate) fn check(root: &Path) -> Vec<Violation> {
    match generated(root) {
        Ok(Some(text)) => {
            let page = std::fs::read_to_string(root.join(PAGE)).ok();
            compare(page.as_deref(), &text).into_iter().collect()
        }
        Ok(None) => {
            println!("note: {PAGE} is not checked: crates/cli is not there");
            Vec::new()
        }
        Err(message) => vec![Violation::new(
            PAGE,
            1,
            format!("cannot be made: {message}"),
            "repair `kumiki info --environment-markdown`",
        )],
    }
}

/// What the page should hold, or `None` while there is no command to ask.
fn generated(root: &Path) -> Result<Option<String>, String> {
    if !root.join("crates/cli/Cargo.toml").exists() {
        return Ok(None);
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = output_of(root, &cargo, &BUILD)?;
    let command = built_command(&built).ok_or("the build did not say where the command is")?;
    output_of(root, &command, &["info", "--environment-markdown"]).map(Some)
}

/// The file of the command, from what cargo says about a build.
fn built_command(messages: &str) -> Option<String> {
    let message = |line| serde_json::from_str::<serde_json::Value>(line).ok();
    let messages = messages.lines().filter_map(message);
    let mut files = messages.filter(|message| message["target"]["name"] == "kumiki");
    files.find_map(|message| message["executable"].as_str().map(str::to_owned))
}

fn compare(page: Option<&str>, generated: &str) -> Option<Violation> {
    let Some(page) = page else {
        return Some(Violation::new(PAGE, 1, "is not there", REMEDY));
    };
    if page == generated {
        return None;
    }
    let same = page.lines().zip(generated.lines()).take_while(|(old, new)| old == new).count();
    Some(Violation::new(PAGE, same + 1, "is not what the code would write", REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_where_cargo_says() {
        let messages = [
            r#"{"reason":"compiler-artifact","target":{"name":"kumiki","kind":["lib"]},"executable":null}"#,
            r#"{"reason":"compiler-artifact","target":{"name":"hello"},"executable":"/t/hello"}"#,
            r#"{"reason":"compiler-artifact","target":{"name":"kumiki","kind":["bin"]},"executable":"/t/kumiki"}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ];
        assert_eq!(built_command(&messages.join("\n")).as_deref(), Some("/t/kumiki"));
        assert_eq!(built_command(messages[0]), None);
    }

    #[test]
    fn the_same_text_passes() {
        assert_eq!(compare(Some("a\nb\n"), "a\nb\n"), None);
    }

    #[test]
    fn a_page_that_is_behind_is_named_with_its_first_wrong_line() {
        assert_eq!(compare(Some("a\nb\n"), "a\nc\n").unwrap().line, 2);
        assert_eq!(compare(Some("a\n"), "a\nc\n").unwrap().line, 2);
        assert_eq!(compare(Some("a"), "a\n").unwrap().line, 2);
    }

    #[test]
    fn a_page_that_is_missing_is_found() {
        assert!(compare(None, "a\n").unwrap().what.contains("not there"));
    }

    #[test]
    fn without_the_command_there_is_nothing_to_check() {
        assert_eq!(generated(Path::new("nowhere")), Ok(None));
    }
}
