//! What depends on what, for `make`: asked of the compiler with the files as they are, so that it names them.

use super::line::{preprocessing, Asked, Stage};
use super::{cc, started, with_ending, Outcome, Wrapper};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Which files the inputs depend on, and nothing else.
pub(super) fn rules(wrapper: Wrapper, prefix: &Path, asked: &Asked) -> Outcome {
    let file = asked.output.as_deref().or(asked.depends.file.as_deref().map(Path::new));
    for index in &asked.inputs {
        let input = Path::new(&asked.words[*index]);
        let line = rules_line(wrapper, prefix, asked, input, file);
        let code = add_rules(wrapper, asked, input, &line, file)?;
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}

/// Writes down which files an input depends on, if that was asked for beside the rest; the user's are named, not what was made of them.
pub(super) fn write_rules(wrapper: Wrapper, prefix: &Path, asked: &Asked, input: &Path) -> Outcome {
    if asked.depends.kind.is_none() {
        return Ok(0);
    }
    let file = rules_file(asked, input);
    let mut line = rules_line(wrapper, prefix, asked, input, Some(&file));
    // What the preprocessor warns of it says when the text is translated.
    line.push("-w".into());
    if !asked.depends.has_target {
        let object = PathBuf::from(with_ending(input, "o"));
        let target = asked.output.clone().filter(|_| asked.stage != Stage::Text).unwrap_or(object);
        line.extend(["-MQ".into(), target.into()]);
    }
    add_rules(wrapper, asked, input, &line, Some(&file))
}

/// Has the compiler write the rules of an input. Where several have one file, those of all are in it: the compiler would keep the last ones.
fn add_rules(
    wrapper: Wrapper,
    asked: &Asked,
    input: &Path,
    line: &[OsString],
    file: Option<&Path>,
) -> Outcome {
    let is_first = asked.inputs.first().is_none_or(|index| Path::new(&asked.words[*index]) == input);
    let has_own = asked.output.is_none() && asked.depends.file.is_none();
    let is_file = |file: &&Path| std::fs::metadata(file).is_ok_and(|there| there.is_file());
    let Some(file) = file.filter(|_| !is_first && !has_own && !asked.show).filter(is_file) else {
        return started(wrapper, asked, line);
    };
    let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut all = std::fs::read(file).map_err(wrong)?;
    let code = started(wrapper, asked, line)?;
    all.extend(std::fs::read(file).map_err(wrong)?);
    std::fs::write(file, all).map_err(wrong)?;
    Ok(code)
}

/// Named as the compiler of GNU does it.
fn rules_file(asked: &Asked, input: &Path) -> PathBuf {
    match (&asked.depends.file, &asked.output) {
        (Some(file), _) => PathBuf::from(file),
        (None, Some(output)) => output.with_extension("d"),
        (None, None) => with_ending(input, "d").into(),
    }
}

fn rules_line(
    wrapper: Wrapper,
    prefix: &Path,
    asked: &Asked,
    input: &Path,
    file: Option<&Path>,
) -> Vec<OsString> {
    let mut line = wrapper.compiler();
    line.push(asked.depends.kind.unwrap_or("-M").into());
    line.push("-D_XCALABLEMP=201811".into());
    line.extend(preprocessing(asked));
    line.extend(cc::compile_flags(prefix));
    line.extend(asked.depends.words.iter().cloned());
    line.extend(file.iter().flat_map(|file| ["-MF".into(), file.into()]));
    line.push(input.into());
    line
}
