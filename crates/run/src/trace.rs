//! The file of a trace: the launcher opens and closes the list, the ranks append its entries.

use crate::{Result, RunError};
use kumiki_net::os::file;
use std::fs::{File, OpenOptions};
use std::io::{Error, Write};
use std::path::{Path, PathBuf};

/// A trace that is being written.
pub(crate) struct TraceFile {
    path: PathBuf,
}

impl TraceFile {
    /// Empties the file and begins the list. The path is made absolute: ranks may run in another directory.
    pub(crate) fn begin(path: &Path) -> Result<TraceFile> {
        let path = file::followed(path).and_then(std::path::absolute).map_err(|error| wrong(path, &error))?;
        let begun = File::create(&path).and_then(|mut file| file.write_all(b"[\n"));
        begun.map_err(|error| wrong(&path, &error))?;
        Ok(TraceFile { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the list. Each entry before ends in a comma, so one more follows: the name of the trace.
    pub(crate) fn end(self) -> Result<()> {
        let last = b"{\"ph\":\"M\",\"name\":\"trace_name\",\"pid\":0,\"args\":{\"name\":\"kumiki\"}}\n]\n";
        let file = OpenOptions::new().append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(last)).map_err(|error| wrong(&self.path, &error))
    }
}

fn wrong(path: &Path, error: &Error) -> RunError {
    RunError::Options(format!("--trace {}: {error}; name a file that can be written", path.display()))
}
