//! Shared memory objects that processes of this user have open, as `/proc` shows them: for whoever looks at running jobs from outside.

use super::process::user;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::fs::{read_dir, read_link, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Descriptors of a process that are looked at: one that has more is no rank.
const MOST_DESCRIPTORS: usize = 1 << 16;
/// The longest command line that is read.
const MOST_NAME_BYTES: usize = 4096;

/// A shared memory object, open for reading.
#[derive(Debug)]
pub struct Held {
    file: File,
    /// Its bytes.
    pub bytes: u64,
    /// The processes that have it open.
    pub holders: Vec<u32>,
}

impl Held {
    /// Copies bytes from a place of it. False if they are not all there. What nobody has written yet is zero, and stays untaken.
    pub fn read(&self, place: u64, into: &mut [u8]) -> bool {
        self.file.read_exact_at(into, place).is_ok()
    }
}

/// The objects of a name that processes of this user have open; processes that end meanwhile, and those that do not let themselves be looked
/// at, are passed over.
pub fn held(name: &CStr) -> Vec<Held> {
    let link = [b"/memfd:", name.to_bytes(), b" (deleted)"].concat();
    let (link, user) = (PathBuf::from(OsStr::from_bytes(&link)), user());
    let mut found: BTreeMap<(u64, u64), Held> = BTreeMap::new();
    let processes = read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if process.metadata().is_ok_and(|data| data.uid() == user) {
            look_at(&process.path(), pid, &link, &mut found);
        }
    }
    found.into_values().collect()
}

fn look_at(process: &Path, pid: u32, link: &Path, found: &mut BTreeMap<(u64, u64), Held>) {
    let descriptors = read_dir(process.join("fd")).into_iter().flatten().flatten();
    for descriptor in descriptors.take(MOST_DESCRIPTORS) {
        let path = descriptor.path();
        // What is only open here because it was found is held by others.
        let is_ours = |held: &Held| path.ends_with(held.file.as_raw_fd().to_string());
        if pid == std::process::id() && found.values().any(is_ours) {
            continue;
        }
        if read_link(&path).is_ok_and(|target| target == link) {
            // It may be another file by now: what is opened is asked who it is.
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            let Ok((file, data)) = opened.and_then(|file| file.metadata().map(|data| (file, data))) else {
                continue;
            };
            if data.is_file() {
                let holders = Vec::new();
                let held = found.entry((data.dev(), data.ino()));
                let held = held.or_insert(Held { file, bytes: data.len(), holders });
                if held.holders.last() != Some(&pid) {
                    held.holders.push(pid);
                }
            }
        }
    }
}

/// What a process runs: its program without folders, and behind an interpreter its script. `None` if it is gone.
pub fn program(pid: u32) -> Option<String> {
    let mut bytes = vec![0; MOST_NAME_BYTES];
    let line = File::open(format!("/proc/{pid}/cmdline")).ok()?;
    let got = line.read_at(&mut bytes, 0).ok()?;
    let words = bytes[..got].split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let mut names = words.map(|word| {
        let name = Path::new(OsStr::from_bytes(word)).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    });
    let first = names.next()?;
    let interprets = ["python", "ruby", "perl", "bash", "sh"].iter().any(|name| first.starts_with(name));
    let script = names.next().filter(|word| interprets && !word.starts_with('-'));
    Some(script.unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore)]
    fn an_object_of_this_process_is_found_once_and_read() {
        let fd = crate::os::memory::create_sealed(c"kumiki-test-held", 8192).unwrap();
        let again = crate::os::memory::duplicate(std::os::fd::AsFd::as_fd(&fd)).unwrap();
        let found = held(c"kumiki-test-held");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].bytes, &found[0].holders[..]), (8192, &[std::process::id()][..]));
        let mut bytes = [1; 8];
        assert!(found[0].read(8184, &mut bytes) && bytes == [0; 8]);
        assert!(!found[0].read(8185, &mut bytes));
        drop((fd, again));
        assert!(held(c"kumiki-test-hel").is_empty());
        assert!(program(std::process::id()).is_some() && program(u32::MAX).is_none());
    }
}
