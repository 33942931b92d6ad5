//! Being the agent of a node: what `kumiki agent` does.

use crate::{Result, RunError};
use kumiki_net::auth::Secret;
use kumiki_net::os::{descriptor, memory, process};
use std::os::fd::{AsFd, BorrowedFd};

/// Serves the launcher at the other end of an inherited descriptor; of standard input and output if there is none. The job's
/// secret is the first thing in the standard input, in either case. Returns the exit code when the node's part of the job is
/// over.
pub fn serve(inherited: Option<i32>) -> Result<i32> {
    // We were started by way of /proc/self/exe, and would be called that.
    process::set_name(c"kumiki-agent");
    let secret = read_secret(std::io::stdin().as_fd())?;
    let (input, output) = match inherited {
        Some(number) => {
            let fd = descriptor::adopt(number)?;
            descriptor::set_close_on_exec(fd.as_fd(), true)?;
            (memory::duplicate(fd.as_fd())?, fd)
        }
        // Duplicates are close-on-exec, so that no rank inherits the control stream.
        None => (memory::duplicate(std::io::stdin().as_fd())?, memory::duplicate(std::io::stdout().as_fd())?),
    };
    Ok(kumiki_net::agent::process::serve(secret, input, output))
}

/// Keeps the agent or the hub of programs that join, which a rank hands over by standard input. Returns when nobody needs it.
pub fn host() -> Result<i32> {
    Ok(kumiki_net::agent::host::serve()?)
}

/// Reads the secret, and not a byte of what comes behind it.
fn read_secret(input: BorrowedFd<'_>) -> Result<Secret> {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        match descriptor::read(input, &mut bytes[filled..]) {
            Ok(0) => {
                let why = "the standard input of an agent begins with the secret of its job; `kumiki run` starts agents";
                return Err(RunError::Options(why.into()));
            }
            Ok(count) => filled += count,
            Err(error) if error.would_block() => drop(descriptor::poll(&[(input, false)], 1_000)?),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Secret::from_bytes(bytes))
}
