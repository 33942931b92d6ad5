//! A rank of `kumiki bench comm --memory`: one message to every other rank, and what that cost this one, as the kernel counts it.

use crate::commands::Outcome;
use kumiki::comm::{MessageOptions, MessageReceiving, MessageSending};
use kumiki::World;
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};

/// What `kumiki rank` is given to do this, in front of the descriptor for the figures and the number of ranks.
pub(crate) const WORK: &str = "crowd";
/// Bytes of the file for each rank.
pub(super) const LINE_BYTES: u64 = 512;
/// The most pairs of a rank that have buffers of their own.
pub(super) const FAST_PAIRS: usize = 64;
const TAG: u64 = 7;
/// What links to an arena are called.
const ARENA: &str = "/memfd:kumiki-arena";

/// The work of a rank.
pub(crate) fn rank(words: &[OsString]) -> Outcome {
    let number = |at: usize| words.get(at).and_then(|word: &OsString| word.to_str()?.parse::<u32>().ok());
    let (Some(descriptor), Some(ranks)) = (number(0), number(1)) else {
        return Err("`kumiki rank crowd` is started by `kumiki bench comm --memory`".into());
    };
    // The descriptor is inherited; by its name nothing must be vouched for. And what is opened anew can be locked against the others.
    let file = std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{descriptor}"));
    let file = file.map_err(|error| format!("cannot open the file for the measurements: {error}"))?;
    work(&file, ranks).map(|()| 0)
}

fn work(file: &File, ranks: u32) -> Result<(), String> {
    // Where the program keeps its requests is its own memory, as it is that of the peers' program: it is there before anything is measured.
    let requests = Requests::new(ranks);
    let mut reader = Reader::new();
    // The first reading touches what reading touches; the second is the one that counts.
    reader.figures()?;
    let before = reader.figures()?;
    let world = World::init().map_err(text)?;
    let requests = exchange(&world, requests).map_err(text)?;
    world.sync().map_err(text)?;
    // One after the other: a process that reads its mappings holds up those that change theirs.
    file.lock().map_err(|error| format!("cannot wait for my turn: {error}"))?;
    let after = reader.figures();
    file.unlock().map_err(|error| format!("cannot end my turn: {error}"))?;
    let after = after?;
    drop(requests);
    let arena = (world.node_ranks().first() == Some(&world.rank())).then(arena_bytes).flatten();
    let line = json!({
        "private": after.private.saturating_sub(before.anonymous),
        "shared": after.shared,
        "page_tables": after.page_tables.saturating_sub(before.page_tables),
        "arena": arena,
    });
    // A figure that is not written is missed by whoever reads.
    let _ = file.write_all_at(format!("{line}\n").as_bytes(), u64::from(world.rank()) * LINE_BYTES);
    world.sync().and_then(|()| world.finalize()).map_err(text)
}

/// As the peers do it: all receives, all sends, and then all of them are waited for.
fn exchange<'w>(world: &'w World, mut requests: Requests<'w>) -> kumiki::Result<Requests<'w>> {
    let (me, ranks, messages) = (world.rank(), world.ranks(), world.messages());
    messages.set_options(MessageOptions { fast_pairs: FAST_PAIRS, ..MessageOptions::default() })?;
    for (step, place) in (1..ranks).zip(&mut requests.receives) {
        *place = Some(messages.start_receive((me + ranks - step) % ranks, TAG)?);
    }
    for (step, place) in (1..ranks).zip(&mut requests.sends) {
        *place = Some(messages.start_send((me + step) % ranks, TAG, [u64::from(me)])?);
    }
    let mut came = 0;
    for receive in requests.receives.iter_mut().filter_map(Option::take) {
        let message = receive.wait()?;
        came += 1;
        if message.elements != [u64::from(message.from)] {
            world.abort("a message was wrong");
        }
    }
    if came + 1 != ranks {
        world.abort("there are more ranks than places for their messages");
    }
    requests.sends.iter_mut().filter_map(Option::take).try_for_each(|send| send.wait())?;
    Ok(requests)
}

/// The requests of the program.
struct Requests<'w> {
    receives: Vec<Option<MessageReceiving<'w, u64>>>,
    sends: Vec<Option<MessageSending<'w>>>,
}

impl Requests<'_> {
    fn new(ranks: u32) -> Self {
        let places = || 0..ranks;
        Requests { receives: places().map(|_| None).collect(), sends: places().map(|_| None).collect() }
    }
}

fn text(error: kumiki::Error) -> String {
    error.to_string()
}

/// What the kernel counts for this process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Figures {
    /// Private_Clean and Private_Dirty of mappings that are not shared: those of the arena are the arena's.
    private: u64,
    /// What of that is no page of a file. Before the others have come, pages of the program may be in this process only.
    anonymous: u64,
    /// Pss of shared mappings: all ranks together have each page once.
    shared: u64,
    page_tables: u64,
    is_in_shared: bool,
}

impl Figures {
    /// A line of `smaps` or `status`.
    fn line(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let (Some(first), Some(second)) = (words.next(), words.next()) else { return };
        let Some(name) = first.strip_suffix(':') else {
            self.is_in_shared = second.as_bytes().get(3) == Some(&b's');
            return;
        };
        let sum = match (name, self.is_in_shared) {
            ("Private_Clean" | "Private_Dirty", false) => &mut self.private,
            ("Anonymous", false) => &mut self.anonymous,
            ("Pss", true) => &mut self.shared,
            ("VmPTE", _) => &mut self.page_tables,
            _ => return,
        };
        *sum += second.parse::<u64>().unwrap_or(0) * 1024;
    }
}

/// Reads the figures. Its memory stays, so that nothing which is measured is found in what reading left free.
struct Reader {
    buffer: Box<[u8]>,
}

impl Reader {
    fn new() -> Reader {
        Reader { buffer: vec![1; 8192].into() }
    }

    fn figures(&mut self) -> Result<Figures, String> {
        let mut figures = Figures::default();
        for path in ["/proc/self/smaps", "/proc/self/status"] {
            self.lines(path, |line| figures.line(line)).map_err(|error| format!("{path}: {error}"))?;
        }
        figures.is_in_shared = false;
        Ok(figures)
    }

    fn lines(&mut self, path: &str, mut each: impl FnMut(&str)) -> std::io::Result<()> {
        let (mut file, mut filled) = (File::open(path)?, 0);
        loop {
            let read = file.read(&mut self.buffer[filled..])?;
            filled += read;
            if read == 0 {
                return Ok(());
            }
            // What has not come wholly, and a line that is longer than all of this, waits or is left out.
            let whole = self.buffer[..filled].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let lines = self.buffer[..whole].split(|&byte| byte == b'\n');
            lines.filter_map(|line| std::str::from_utf8(line).ok()).for_each(&mut each);
            self.buffer.copy_within(whole..filled, 0);
            filled = if whole == 0 && filled == self.buffer.len() { 0 } else { filled - whole };
        }
    }
}

/// What is committed of the arena of this node: the rank or its agent has it open.
fn arena_bytes() -> Option<u64> {
    let parent = std::os::unix::process::parent_id();
    let folders = ["/proc/self/fd".to_string(), format!("/proc/{parent}/fd")];
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let is_arena = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().starts_with(ARENA))
    };
    let arena = files.map(|entry| entry.path()).find(|path| is_arena(path))?;
    // Blocks of stat(2) have 512 bytes on every system.
    Some(std::fs::metadata(arena).ok()?.blocks() * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_told_from_what_is_private() {
        let mut figures = Figures::default();
        let text = "\
5580-5590 r-xp 00000000 08:01 12   /bin/kumiki
Pss:                   4 kB
Private_Clean:         8 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
7f00-7f10 rw-s 00000000 00:01 99   /memfd:kumiki-arena (deleted)
Pss:                  12 kB
Pss_Dirty:            12 kB
Private_Dirty:        16 kB
7f20-7f30 rw-p 00000000 00:00 0
Private_Dirty:        20 kB
Anonymous:            20 kB
VmPTE:                40 kB";
        text.lines().for_each(|line| figures.line(line));
        let kib = |count: u64| count << 10;
        assert_eq!((figures.private, figures.anonymous), (kib(32), kib(24)));
        assert_eq!((figures.shared, figures.page_tables), (kib(12), kib(40)));
    }

    #[test]
    fn the_kernel_knows_what_this_process_takes() {
        let mut reader = Reader::new();
        let few = reader.figures().expect("figures");
        assert!(few.anonymous > 0 && few.private >= few.anonymous && few.page_tables > 0, "{few:?}");
        let more = vec![1u8; 4 << 20];
        let many = reader.figures().expect("figures");
        assert!(many.private - few.private >= 4 << 20, "{few:?} {many:?} {}", more[0]);
    }
}
