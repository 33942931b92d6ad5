//! Directives that come through `_Pragma`.

use super::files::Folder;
use super::texts::{bytes_of, text_of};
use super::Wrapper;
use std::ffi::OsString;

/// Whether a line is a directive that came through `_Pragma`, or with a file that was found by the preprocessor alone.
pub(super) fn is_pragma(line: &str) -> bool {
    let words =
        line.trim_start().strip_prefix('#').map(str::trim_start).and_then(|rest| rest.strip_prefix("pragma"));
    words.is_some_and(|rest| rest.trim_start().starts_with("xmp "))
}

/// A preprocessor leaves such directives as they are: once more for them alone, with the macros that are known where each stands.
pub(super) fn with_expanded_pragmas(
    wrapper: Wrapper,
    line: &[OsString],
    folder: &Folder,
    preprocessed: &str,
) -> Result<String, String> {
    let output = |line: &[OsString]| {
        let done = wrapper.command(line).and_then(|mut command| command.output());
        let done = done.map_err(|error| wrapper.cannot_start(&line[0], &error))?;
        Ok::<_, String>(done.status.success().then(|| text_of(&done.stdout)))
    };
    let mut with_macros = line.to_vec();
    with_macros.insert(with_macros.len() - 1, "-dD".into());
    let Some(text) = output(&with_macros)? else { return Ok(preprocessed.to_owned()) };
    // Macros and directives, in their order.
    let mut known = String::new();
    for line in text.lines() {
        match line {
            _ if line.starts_with("#define ") || line.starts_with("#undef ") => known.push_str(line),
            _ if is_pragma(line) => {
                let words = line.split_once("xmp ").map_or("", |(_, words)| words);
                known.push_str(&format!("{DIRECTIVE_MARK} {words} {DIRECTIVE_MARK}"));
            }
            _ => continue,
        }
        known.push('\n');
    }
    let file = folder.path.join("pragmas.c");
    std::fs::write(&file, bytes_of(&known))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let mut words = wrapper.compiler();
    words.extend(["-E", "-P", "-w"].map(OsString::from));
    words.push(file.into());
    let Some(text) = output(&words)? else { return Ok(preprocessed.to_owned()) };
    let expanded: Vec<&str> = text.split(DIRECTIVE_MARK).skip(1).step_by(2).map(str::trim).collect();
    if expanded.len() != preprocessed.lines().filter(|line| is_pragma(line)).count() {
        return Ok(preprocessed.to_owned());
    }
    let mut next = expanded.into_iter();
    let replaced = |line: &str| match is_pragma(line) {
        true => format!("#pragma xmp {}\n", next.next().unwrap_or("").replace('\n', " ")),
        false => line.to_owned(),
    };
    Ok(preprocessed.split_inclusive('\n').map(replaced).collect())
}

/// Stands around a directive whose macros are expanded.
const DIRECTIVE_MARK: &str = "__kxmp_directive__";
