//! Decisions that outlive a run: the file that `KUMIKI_TUNE` names.
//!
//! The first member of a group reads it, once in a process, and tells the others what it says: all know the same, whatever lies on their own
//! disks. What was decided in the groups of rank 0 is written back when that finalizes.

use super::tune::{line_of, parse, Class, MOST_FILE_BYTES, TITLE};
use super::{Algorithm, Group};
use crate::{Error, Purpose, Result, World};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

const VARIABLE: &str = "KUMIKI_TUNE";

/// What a process knows of the file.
#[derive(Default)]
pub(super) struct Kept {
    /// What it said, when it was read.
    read: Mutex<Option<Result<String>>>,
    learned: Mutex<Lines>,
}

/// Decisions, by what they are about and the ranks and nodes of the group.
type Lines = BTreeMap<(Class, [u32; 2]), Algorithm>;

/// Whether there is a file to ask. One whose name cannot be read counts: whoever asks it gets the error.
pub(super) fn is_asked() -> bool {
    kumiki_mem::variable(VARIABLE).map_or(true, |path| path.is_some())
}

fn wrong(path: &str, why: impl std::fmt::Display) -> Error {
    Error::Misuse(format!("{VARIABLE}={path}: {why}"))
}

/// The text of the file, which can be read as decisions. One that is not there says nothing: it is going to be written.
fn read(path: &str) -> Result<String> {
    let mut text = String::new();
    let opened = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(text),
        opened => opened.map_err(|error| wrong(path, error))?,
    };
    opened.take(MOST_FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| wrong(path, error))?;
    parse(&text).map_err(|(line, why)| wrong(path, format!("line {line}: {why}")))?;
    Ok(text)
}

/// Writes decisions: whole, or not at all.
fn write(path: &str, text: &str) -> Result<()> {
    let other = format!("{path}.{}", std::process::id());
    let written = std::fs::write(&other, text).and_then(|()| std::fs::rename(&other, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&other);
        Error::Refused(format!("{VARIABLE}={path}: it cannot be written: {error}"))
    })
}

/// The lines of a file: what was learned first, and of what was there before as much as a file may have.
fn text_of(learned: Lines, before: Vec<(Class, Algorithm, [u32; 2])>) -> String {
    let before = before.into_iter().map(|(class, algorithm, place)| ((class, place), algorithm));
    let others: Lines = before.filter(|(key, _)| !learned.contains_key(key)).collect();
    let lines = learned.into_iter().chain(others);
    lines.fold(format!("{TITLE}\n"), |text, ((class, place), algorithm)| {
        let line = line_of(class, algorithm, place);
        match (text.len() + line.len()) as u64 <= MOST_FILE_BYTES {
            true => text + &line,
            false => text,
        }
    })
}

impl World {
    fn tuning(&self) -> Result<String> {
        let mut read_before = self.groups().kept.read.lock().unwrap_or_else(PoisonError::into_inner);
        let read_now = || kumiki_mem::variable(VARIABLE)?.map_or(Ok(String::new()), |path| read(&path));
        read_before.get_or_insert_with(read_now).clone()
    }

    /// Writes what this rank has learned to the file, if there is one, beside what it says of other calls.
    pub(crate) fn save_tuning(&self) -> Result<()> {
        let learned =
            std::mem::take(&mut *self.groups().kept.learned.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(path) = kumiki_mem::variable(VARIABLE)?.filter(|_| !learned.is_empty()) else {
            return Ok(());
        };
        // As it is now: others may have written to it since it was read.
        let before = parse(&read(&path)?).unwrap_or_default();
        write(&path, &text_of(learned, before))
    }
}

impl Group<'_> {
    /// Takes what the file of the first member says. Collective: what that cannot read is an error on all.
    pub(super) fn learn_file(&self) -> Result<()> {
        let own = if self.me == 0 { self.world.tuning() } else { Ok(String::new()) };
        let mut text = match &own {
            Ok(text) => text.clone().into_bytes(),
            Err(error) => error.to_string().into_bytes(),
        };
        let mut head = [u64::from(own.is_err()), text.len() as u64];
        self.run("decisions", 0, |talk| {
            talk.tree_broadcast(self.all, 0, bytemuck::cast_slice_mut(&mut head))
        })?;
        self.run("decisions", head[1], |talk| {
            // Whatever a member sends: it is not more than there can be.
            let _booked = talk.group.world.book(Purpose::Comm, head[1].min(2 * MOST_FILE_BYTES))?;
            text.resize(head[1].min(2 * MOST_FILE_BYTES) as usize, 0);
            talk.tree_broadcast(self.all, 0, &mut text)?;
            // Whoever leaves after an error must not be missed by one that reads.
            talk.meet_in(false)
        })?;
        own?;
        let text = String::from_utf8_lossy(&text);
        match head[0] {
            0 if text.is_empty() => Ok(()),
            0 => self.learn(&text),
            _ => Err(Error::Misuse(text.into_owned())),
        }
    }

    /// Keeps what was decided for the file, on rank 0.
    pub(super) fn keep_decisions(&self) {
        if self.world.rank() != 0 || !is_asked() {
            return;
        }
        let decided = self.decided();
        let mut learned = self.world.groups().kept.learned.lock().unwrap_or_else(PoisonError::into_inner);
        learned.extend(
            decided.into_iter().map(|(class, algorithm)| ((class, [self.count, self.nodes]), algorithm)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_had_grown_too_long_to_be_read_kept_all_groups_from_being_made() {
        let class = |power| Class { collective: "allreduce", commutes: true, power };
        let line = |ranks: u32| ((class(ranks % 40 + 1), [ranks, 1]), Algorithm::Ring);
        let learned: Lines = (0..100).map(line).collect();
        let before = (0..4_000).map(line).map(|((class, place), algorithm)| (class, algorithm, place));
        let text = text_of(learned.clone(), before.collect());
        let read: Lines =
            parse(&text).unwrap().into_iter().map(|(class, way, place)| ((class, place), way)).collect();
        assert!(read.len() > 500 && learned.iter().all(|(key, way)| read.get(key) == Some(way)));
    }

    #[test]
    fn a_file_is_read_whole_or_named_with_the_line_that_is_wrong() {
        let folder = std::env::temp_dir().join(format!("kumiki-decisions-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("tune").display().to_string();
        assert_eq!(read(&path), Ok(String::new()), "it is not there yet");
        let class = Class { collective: "allreduce", commutes: false, power: 10 };
        let text = format!("{TITLE}\n{}", line_of(class, Algorithm::Ring, [4, 2]));
        write(&path, &text).expect("written");
        assert_eq!(read(&path), Ok(text.clone()));
        assert_eq!(parse(&text), Ok(vec![(class, Algorithm::Ring, [4, 2])]));
        std::fs::write(&path, format!("{text}allreduce quick\n")).expect("written");
        let wrong = read(&path).expect_err("line 3 is wrong").to_string();
        assert!(wrong.contains(&format!("{path}: line 3")), "{wrong}");
        let gone = write(&folder.join("no/where").display().to_string(), "").expect_err("no folder");
        assert!(gone.to_string().contains("cannot be written"), "{gone}");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
