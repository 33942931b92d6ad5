//! The translator behind `kumiki xmpcc`: C with the directives of XcalableMP in, C with calls of the run time out.
//!
//! [`mark`] makes text that a C preprocessor can expand; the preprocessor is the caller's to start; [`translate`] reads what it wrote. The
//! output is the input with pieces of it replaced: comments, pragmas of others and lines stay where they are.
//!
//! ```
//! use std::collections::HashMap;
//! let text = "int main(void)\n{\n#pragma xmp nodes p[*]\n#pragma xmp barrier\n  return 0;\n}\n";
//! let marked = kumiki_xmp::mark(text, &mut |_, _| None);
//! let files = HashMap::from([("a.c".to_owned(), text.to_owned())]);
//! let c = kumiki_xmp::translate(&format!("# 1 \"a.c\"\n{marked}"), &files, &kumiki_xmp::Options::default()).unwrap();
//! assert!(c.contains("kxmp_barrier(\"a.c:4\""));
//! ```
#![forbid(unsafe_code)]

mod ast;
mod directive;
mod emit;
#[cfg(test)]
mod golden;
mod mark;
mod names;
mod near;
mod parse;
#[cfg(test)]
mod robust;
mod source;
mod structures;

use std::collections::HashMap;

pub use mark::mark;
pub use source::Diagnostic;

/// How to translate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Subscripts inside a loop that do not mention its variables are local, as the Omni compiler has it.
    pub omni_local_subscripts: bool,
    /// Images of coarrays are counted from 1, as before XcalableMP 1.3.
    pub images_from_1: bool,
}

/// Translates preprocessed text. `files` are the user's, by the names that line markers have: what comes from others is copied.
pub fn translate(
    text: &str,
    files: &HashMap<String, String>,
    options: &Options,
) -> Result<String, Vec<Diagnostic>> {
    let source = source::Source::new(text, files);
    let told = |source: &source::Source<'_>, problems: Vec<source::Problem>| {
        problems.iter().map(|problem| source.diagnostic(problem)).collect::<Vec<_>>()
    };
    let flattened = structures::flattened(&source).map_err(|problem| told(&source, vec![problem]))?;
    let source = match &flattened {
        Some(text) => source::Source::new(text, files),
        None => source,
    };
    emit::translate(&source, options).map_err(|problems| told(&source, problems))
}
