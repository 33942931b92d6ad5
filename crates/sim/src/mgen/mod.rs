//! MGEN: a small language for pseudo parallel programs, that say what each rank sends, receives, puts, gets and
//! computes, and move no data. `docs/mgen.md` is its reference.
//!
//! `lexer` → `parser` (and `expression`) → `tree` → `compile` → `code`, which `machine` runs lazily for each rank as
//! a [`Script`]. Collectives are programs of `library.mgen`. `format` writes the tree back.

mod code;
mod compile;
mod evaluate;
mod expression;
mod format;
mod lexer;
mod machine;
mod parser;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod verbs;

pub use code::{Builtin, Value, BUILTINS};
pub use compile::LIBRARY;
pub use format::format;
pub use parser::parse;

use crate::program::{Script, Workload};
use crate::source::{Mistake, Source};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

/// A program for so many ranks, ready to be simulated.
///
/// ```
/// use kumiki_sim::{mgen::Program, source::Source, Workload};
/// let source = Source::new("ring.mgen", "isend 8 to (rank + 1) % ranks\nrecv 8 from (rank - 1) % ranks\n");
/// let program = Program::new(&source, 16, &[], 0).unwrap();
/// assert_eq!(program.ranks(), 16);
/// ```
pub struct Program {
    source: Source,
    code: code::Code,
    parameters: Vec<(String, Value)>,
    ranks: u32,
    seed: u64,
    failed: AtomicBool,
    mistake: Mutex<Option<Mistake>>,
}

impl Program {
    /// Reads and checks a program. Parameters replace the values that it gives them.
    pub fn new(
        source: &Source,
        ranks: u32,
        parameters: &[(String, Value)],
        seed: u64,
    ) -> Result<Program, Mistake> {
        let tree = parse(source)?;
        let compiled = compile::compile(source, &tree, ranks, parameters)?;
        Ok(Program {
            source: source.clone(),
            code: compiled.code,
            parameters: compiled.parameters,
            ranks,
            seed,
            failed: AtomicBool::new(false),
            mistake: Mutex::new(None),
        })
    }

    /// Every parameter with its value, in the order of the program.
    pub fn parameters(&self) -> &[(String, Value)] {
        &self.parameters
    }

    /// What was wrong when it ran, such as a rank that does not exist. Look here first: a rank that fails ends, and
    /// others may wait for it.
    pub fn mistake(&self) -> Option<Mistake> {
        self.mistake.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn has_failed(&self) -> bool {
        // Only to end sooner; the lock orders what is read afterwards.
        self.failed.load(Ordering::Relaxed)
    }

    fn fail(&self, mistake: Mistake) {
        let mut place = self.mistake.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        place.get_or_insert(mistake);
        self.failed.store(true, Ordering::Relaxed);
    }
}

impl Workload for Program {
    fn name(&self) -> String {
        self.source.name.to_string()
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        Box::new(machine::Machine::new(self, rank))
    }
}

/// A parameter as the command line gives it: `k=8`, `bytes=64K`, `work=10us`.
///
/// ```
/// use kumiki_sim::mgen::{parameter, Value};
/// assert_eq!(parameter("bytes=64K").unwrap(), ("bytes".into(), Value::Number(65536)));
/// assert_eq!(parameter("work=1.5us").unwrap(), ("work".into(), Value::Time(1_500_000)));
/// ```
pub fn parameter(text: &str) -> Result<(String, Value), String> {
    let wrong = || format!("`{text}` should be NAME=VALUE, such as k=8, bytes=64K or work=10us");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let (name, value) = (name.trim(), value.trim());
    let (value, sign) = value.strip_prefix('-').map_or((value, 1), |value| (value, -1));
    let digits = value.trim_end_matches(|c: char| c.is_ascii_lowercase()).trim();
    let unit = value[digits.len()..].trim();
    let value = match (unit, tree::Unit::parse(unit)) {
        ("", _) => expression::number_value(digits).map(|value| Value::Number(sign * value)),
        (_, Some(unit)) => expression::time_value(digits, unit).map(|value| Value::Time(sign * value)),
        _ => None,
    };
    match value {
        Some(value) if !name.is_empty() => Ok((name.to_string(), value)),
        _ => Err(wrong()),
    }
}
