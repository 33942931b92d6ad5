//! The file of a trace: the launcher opens and closes the list, the ranks append its entries.

use crate::{Result, RunError};
use kumiki_net::os::file;
use std::fs::File;
use std::io::{Error, Write};
use std::path::{Path, PathBuf};

/// A trace that is being written.
pub(crate) struct TraceFile {
    path: PathBuf,
    file: File,
}

impl TraceFile {
    /// Empties the file and begins the list. The path is made absolute: ranks may run in another directory.
    pub(crate) fn begin(path: &Path) -> Result<TraceFile> {
        let begin = || {
            let path = file::written_place(path)?;
            let mut file = file::open_to_append(&path)?;
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            file.write_all(b"[\n")?;
            Ok(TraceFile { path, file })
        };
        begin().map_err(|error| wrong(path, &error))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the list. Each entry before ends in a comma, so one more follows: the name of the trace.
    pub(crate) fn end(mut self) -> Result<()> {
        let last = b"{\"ph\":\"M\",\"name\":\"trace_name\",\"pid\":0,\"args\":{\"name\":\"kumiki\"}}\n]\n";
        self.file.write_all(last).map_err(|error| wrong(&self.path, &error))
    }
}

fn wrong(path: &Path, error: &Error) -> RunError {
    RunError::Options(format!("--trace {}: {error}; name a file that can be written", path.display()))
}
