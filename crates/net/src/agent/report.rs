//! A word to the user, from loops that must go on whatever becomes of it.

use crate::os::descriptor;
use std::os::fd::AsFd;

/// How long one piece of a report may wait for whoever reads it.
const PATIENCE_MS: i32 = 100;
/// What a pipe takes whole or not at all. Where it says that it has room, it has room for so much.
const PIECE_BYTES: usize = 4096;

/// Prints `kumiki: …` and the end of the line on standard error. When that is closed, full or read by nobody the report is lost,
/// and nothing else: no panic, no wait of more than a moment.
pub fn print(text: &str) {
    say(&format!("kumiki: {text}"));
}

/// The same without `kumiki: `, for commands of another name.
pub fn say(text: &str) {
    say_to(&std::io::stderr(), text);
}

fn say_to(place: &impl AsFd, text: &str) {
    let line = format!("{text}\n");
    for piece in line.as_bytes().chunks(PIECE_BYTES) {
        let room = descriptor::poll(&[(place.as_fd(), true)], PATIENCE_MS);
        let has_room = room.is_ok_and(|ready| ready[0].writable);
        if !has_room || !matches!(descriptor::write(place.as_fd(), piece), Ok(count) if count == piece.len())
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_report_that_nobody_can_read_is_lost_and_nothing_else() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        say_to(&full, "lost");
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        say_to(&writer, "lost");
        // More than anybody keeps for a reader that does not come: the test would not end.
        let (mut reader, writer) = UnixStream::pair().unwrap();
        say_to(&writer, &"x".repeat(5_000));
        say_to(&writer, &"y".repeat(1 << 20));
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("xxx") && text.lines().next().unwrap().len() == 5_000);
    }
}
