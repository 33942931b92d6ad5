//! Being the agent of a node: what `kumiki agent` does.

use crate::Result;
use kumiki_net::os::{descriptor, memory, process};
use std::os::fd::AsFd;

/// Serves the launcher at the other end of an inherited descriptor; of standard input and output if there is none.
/// Returns the exit code when the node's part of the job is over.
pub fn serve(inherited: Option<i32>) -> Result<i32> {
    // We were started by way of /proc/self/exe, and would be called that.
    process::set_name(c"kumiki-agent");
    let (input, output) = match inherited {
        Some(number) => {
            let fd = descriptor::adopt(number)?;
            descriptor::set_close_on_exec(fd.as_fd(), true)?;
            (memory::duplicate(fd.as_fd())?, fd)
        }
        // Duplicates are close-on-exec, so that no rank inherits the control stream.
        None => (memory::duplicate(std::io::stdin().as_fd())?, memory::duplicate(std::io::stdout().as_fd())?),
    };
    Ok(kumiki_net::agent::process::serve(input, output))
}
