//! The live view: drawn anew each second on a screen of its own, which is gone when it ends.

use super::super::{Outcome, READER_GONE};
use super::{page, worlds};
use kumiki_run::watch::{self, Keys, Signals};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;

const SIGINT: i32 = 2;
const SIGHUP: i32 = 1;
const SIGQUIT: i32 = 3;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGTSTP: i32 = 20;
const SIGWINCH: i32 = 28;

/// The other screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// How often it is drawn.
const PERIOD_MS: u64 = 1000;

/// What was asked for while it was shown.
enum Wish {
    Draw,
    Scroll(isize),
    Stop,
    /// Somebody else has had the terminal.
    Again,
    End(i32),
}

pub(super) fn run() -> Outcome {
    let signals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH];
    let signals = Signals::new(&signals).map_err(|e| e.to_string())?;
    // Where keys cannot be read it ends by a signal.
    let keys = Keys::new(std::io::stdin()).ok();
    let screen = Screen::begin()?;
    let mut top = 0;
    let mut lines = page::of(&worlds::now());
    let mut drawn_ms = watch::now_ms();
    loop {
        top = screen.draw(&lines, top, keys.is_some())?;
        match wish(&signals, keys.as_ref(), drawn_ms + PERIOD_MS) {
            Wish::Draw => {
                lines = page::of(&worlds::now());
                drawn_ms = watch::now_ms();
            }
            Wish::Scroll(rows) => top = top.saturating_add_signed(rows),
            Wish::Stop => {
                screen.end();
                keys.iter().for_each(Keys::end);
                watch::stop_self();
                // Somebody has brought it back, or there is nobody who could, and it was not stopped.
                keys.iter().for_each(|keys| drop(keys.begin()));
                screen.again()?;
            }
            Wish::Again => {
                // It may have been stopped without having been told, and not have left the screen.
                screen.end();
                keys.iter().for_each(|keys| drop(keys.begin()));
                screen.again()?;
            }
            Wish::End(code) => return Ok(code),
        }
    }
}

/// Waits until something is to be done.
fn wish(signals: &Signals, keys: Option<&Keys<std::io::Stdin>>, until_ms: u64) -> Wish {
    let input = std::io::stdin();
    loop {
        let left_ms = until_ms.saturating_sub(watch::now_ms());
        if left_ms == 0 {
            return Wish::Draw;
        }
        let mut fds = vec![(signals.as_fd(), false)];
        fds.extend(keys.map(|_| (input.as_fd(), false)));
        let Ok(ready) = watch::poll(&fds, left_ms as i32) else { return Wish::End(1) };
        match signals.next() {
            Some(SIGTSTP) => return Wish::Stop,
            Some(SIGCONT) => return Wish::Again,
            Some(SIGWINCH) => return Wish::Draw,
            Some(SIGINT) => return Wish::End(0),
            Some(other) => return Wish::End(128 + other),
            None => {}
        }
        let Some(input_ready) = ready.get(1) else { continue };
        // Where somebody else has made it wait for whole lines, to read would be to sleep.
        if !input_ready.readable && !input_ready.hung_up {
            continue;
        }
        let mut typed = [0; 16];
        match watch::read(input.as_fd(), &mut typed) {
            Ok(0) if input_ready.hung_up => return Wish::End(128 + SIGHUP),
            Ok(got) => {
                if let Some(wish) = key(&typed[..got]) {
                    return wish;
                }
            }
            Err(error) if error.would_block() => {}
            Err(_) => return Wish::End(128 + SIGHUP),
        }
    }
}

fn key(typed: &[u8]) -> Option<Wish> {
    match typed {
        [b'q' | b'Q' | 3 | 4, ..] => Some(Wish::End(0)),
        [b'j' | b'\n', ..] | [0x1b, b'[' | b'O', b'B', ..] => Some(Wish::Scroll(1)),
        [b'k', ..] | [0x1b, b'[' | b'O', b'A', ..] => Some(Wish::Scroll(-1)),
        [b' ', ..] | [0x1b, b'[', b'6', ..] => Some(Wish::Scroll(10)),
        [b'b', ..] | [0x1b, b'[', b'5', ..] => Some(Wish::Scroll(-10)),
        [b'r', ..] => Some(Wish::Draw),
        _ => None,
    }
}

/// The other screen; when it is dropped the terminal is as it was.
struct Screen;

impl Screen {
    fn begin() -> Result<Screen, String> {
        let screen = Screen;
        screen.again()?;
        Ok(screen)
    }

    fn again(&self) -> Result<(), String> {
        write(ENTER)
    }

    fn end(&self) {
        let _ = write(LEAVE);
    }

    /// Draws the lines from one on, as far as there is room: which one that was.
    fn draw(&self, lines: &[String], top: usize, has_keys: bool) -> Result<usize, String> {
        let (columns, rows) = watch::size(std::io::stdout().as_fd()).unwrap_or((80, 24));
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        let room = rows.saturating_sub(1).max(1);
        let top = top.min(lines.len().saturating_sub(room));
        let below = lines.len().saturating_sub(top + room);
        let foot = foot(top, below, has_keys);
        let mut text = String::from("\x1b[H");
        for line in lines.iter().skip(top).take(room) {
            let is_grave = line.starts_with(page::CIRCLE);
            text.push_str(if is_grave { "\x1b[1m" } else { "" });
            text.push_str(&cut(line, columns));
            text.push_str("\x1b[0m\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        // The last row, in which no line ends.
        text.push_str(&format!(
            "\x1b[{rows};1H\x1b[7m{}\x1b[0m\x1b[K",
            cut(&foot, columns.saturating_sub(1))
        ));
        write(&text)?;
        Ok(top)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.end();
    }
}

/// The last line: how it ends, and what more there is.
fn foot(above: usize, below: usize, has_keys: bool) -> String {
    match (above, below, has_keys) {
        (0, 0, true) => "q ends".into(),
        (0, 0, false) => "Ctrl-C ends".into(),
        (_, _, true) => format!("q ends; {above} lines above, {below} below: j, k, arrows, space"),
        (_, _, false) => format!("Ctrl-C ends; {below} lines below, which --once shows"),
    }
}

/// As much of a line as there is room for.
fn cut(line: &str, columns: usize) -> String {
    match line.chars().count() <= columns {
        true => line.to_string(),
        false => line.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn write(text: &str) -> Result<(), String> {
    let mut output = std::io::stdout();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => READER_GONE.to_string(),
        _ => format!("cannot draw: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_keys_are_known() {
        assert_eq!((cut("abcdef", 4), cut("ab→d", 4)), ("abc…".into(), "ab→d".into()));
        assert!(matches!(key(b"q"), Some(Wish::End(0))));
        assert!(matches!(key(b"\x1b[A"), Some(Wish::Scroll(-1))));
        assert!(key(b"x").is_none() && key(b"").is_none());
        assert!(foot(0, 3, true).starts_with("q ends") && foot(0, 3, false).starts_with("Ctrl-C ends"));
    }
}
