//! The output of several programs, each line behind the number of its block.

use crate::{Result, RunError};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A longer line is printed in pieces.
const LINE_BYTES: u64 = 64 << 10;
/// How long output may take that nobody closes, when all launchers have ended.
const PATIENCE: Duration = Duration::from_secs(1);
const SLOW_READER: Duration = Duration::from_secs(30);
/// How long somebody may go on printing whom no launcher has ended.
const LONGEST: Duration = Duration::from_secs(60);

/// The threads that read it.
#[derive(Default)]
pub(super) struct Tagged {
    threads: Vec<JoinHandle<()>>,
    /// How often something was read or printed, and how many threads are printing.
    moves: Arc<AtomicUsize>,
    printing: Arc<AtomicUsize>,
}

impl Tagged {
    /// Prints what a program of a block writes from now on.
    pub(super) fn follow(&mut self, block: usize, child: &mut Child) -> Result<()> {
        let output = child.stdout.take().map(|stream| (Box::new(stream) as Box<dyn Read + Send>, false));
        let errors = child.stderr.take().map(|stream| (Box::new(stream) as Box<dyn Read + Send>, true));
        for (stream, is_error) in [output, errors].into_iter().flatten() {
            let (moves, printing) = (self.moves.clone(), self.printing.clone());
            let body = move || copy(block, stream, is_error, (&moves, &printing));
            let thread = std::thread::Builder::new().name("kumiki-output".into()).spawn(body);
            self.threads
                .push(thread.map_err(|error| RunError::Options(format!("cannot start a thread: {error}")))?);
        }
        Ok(())
    }

    /// Prints what is left.
    pub(super) fn finish(self) {
        let (mut since, mut moves) = (Instant::now(), 0);
        let began = since;
        while !self.threads.iter().all(JoinHandle::is_finished) {
            let now = self.moves.load(Ordering::Relaxed);
            if now != moves {
                (since, moves) = (Instant::now(), now);
            }
            // Whoever reads what we print may take longer.
            let patience = if self.printing.load(Ordering::Relaxed) > 0 { SLOW_READER } else { PATIENCE };
            if since.elapsed() >= patience || began.elapsed() >= LONGEST {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Prints a whole line, so that those of two blocks never mix; nor, where both streams go to one place, those of output and of errors.
fn print(line: &[u8], is_error: bool) {
    static ONE_PLACE: OnceLock<bool> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let is_one = *ONE_PLACE.get_or_init(|| {
        let place = |path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
        place("/proc/self/fd/1").is_some_and(|output| place("/proc/self/fd/2") == Some(output))
    });
    let _turn = is_one.then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    let _ = match is_error {
        true => std::io::stderr().lock().write_all(line),
        false => {
            let mut output = std::io::stdout().lock();
            output.write_all(line).and_then(|()| output.flush())
        }
    };
}

/// Until the stream ends, or nobody reads what we print: then it is only read, so that the program goes on.
fn copy(
    block: usize,
    stream: Box<dyn Read + Send>,
    is_error: bool,
    (moves, printing): (&AtomicUsize, &AtomicUsize),
) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let tag = format!("[{block}] ");
        line.extend_from_slice(tag.as_bytes());
        match stream.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        moves.fetch_add(1, Ordering::Relaxed);
        printing.fetch_add(1, Ordering::Relaxed);
        print(&line, is_error);
        printing.fetch_sub(1, Ordering::Relaxed);
    }
}
