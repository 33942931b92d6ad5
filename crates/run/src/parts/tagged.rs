//! The output of several programs, each line behind the number of its block.

use crate::{Result, RunError};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A longer line is printed in pieces.
const LINE_BYTES: u64 = 64 << 10;
/// How long output may take that nobody closes, when all launchers have ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// The threads that read it.
#[derive(Default)]
pub(super) struct Tagged(Vec<JoinHandle<()>>);

impl Tagged {
    /// Prints what a program of a block writes from now on.
    pub(super) fn follow(&mut self, block: usize, child: &mut Child) -> Result<()> {
        let output = child.stdout.take().map(|stream| (Box::new(stream) as Box<dyn Read + Send>, false));
        let errors = child.stderr.take().map(|stream| (Box::new(stream) as Box<dyn Read + Send>, true));
        for (stream, is_error) in [output, errors].into_iter().flatten() {
            let body = move || copy(block, stream, is_error);
            let thread = std::thread::Builder::new().name("kumiki-output".into()).spawn(body);
            self.0
                .push(thread.map_err(|error| RunError::Options(format!("cannot start a thread: {error}")))?);
        }
        Ok(())
    }

    /// Prints what is left.
    pub(super) fn finish(self) {
        let began = Instant::now();
        while !self.0.iter().all(JoinHandle::is_finished) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Until the stream ends, or nobody reads what we print: then it is only read, so that the program goes on.
fn copy(block: usize, stream: Box<dyn Read + Send>, is_error: bool) {
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
        // Whole lines, so that those of two blocks never mix.
        let _ = match is_error {
            true => std::io::stderr().lock().write_all(&line),
            false => {
                let mut output = std::io::stdout().lock();
                output.write_all(&line).and_then(|()| output.flush())
            }
        };
    }
}
