//! The file in which the parts of a job find each other, when several launchers start one world.
//!
//! It is text, a name and a value on each line, and `#` begins a comment:
//!
//! ```text
//! ranks 5
//! master 10.1.0.7:41235
//! hub apart
//! secret 1f0e…  (64 hexadecimal digits)
//! ```
//!
//! `hub apart` says that the hub already listens at the master's address; without the line the process of rank 0 listens
//! there. Because of the secret nobody else may read the file.

use crate::os::file::read_private;
use crate::{Error, Result};
use std::path::Path;

/// Letters of a secret.
const SECRET_DIGITS: usize = 64;
/// A file that is longer is something else.
const MAX_BYTES: u64 = 4096;

/// What a portfile says.
#[derive(Clone, PartialEq, Eq)]
pub struct Portfile {
    /// Ranks of all parts together.
    pub ranks: u32,
    /// `host:port` where the hub listens.
    pub master: String,
    /// Whether the hub is a process of its own; otherwise that of rank 0 hosts it.
    pub hub_apart: bool,
    secret: String,
}

impl std::fmt::Debug for Portfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Portfile({} ranks, {})", self.ranks, self.master)
    }
}

/// One part of a job: where the others are found, and how many ranks come before its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The portfile.
    pub portfile: String,
    /// The number of its first rank.
    pub offset: u32,
}

impl Portfile {
    /// A file with this secret, for a hub of its own.
    pub(super) fn new(ranks: u32, master: String, secret: &[u8; SECRET_DIGITS / 2]) -> Portfile {
        let secret = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Portfile { ranks, master, hub_apart: true, secret }
    }

    /// Reads a file that nobody else can read.
    pub fn read(path: &str) -> Result<Portfile> {
        let wrong = |why: &str| Error::Refused(format!("portfile {path}: {why}"));
        let bytes = read_private(Path::new(path), MAX_BYTES).map_err(|why| wrong(&why))?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("it is not text"))?;
        Portfile::parse(&text).map_err(|why| wrong(&why))
    }

    fn parse(text: &str) -> std::result::Result<Portfile, String> {
        let (mut ranks, mut master, mut secret, mut hub_apart) = (None, None, None, false);
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(name) = words.next() else { continue };
            let (value, more) = (words.next().unwrap_or_default(), words.next());
            let known = match name {
                "ranks" => {
                    value.parse().ok().filter(|&count: &u32| count > 0).map(|count| ranks = Some(count))
                }
                "master" => value.contains(':').then(|| master = Some(value.to_string())),
                "hub" => (value == "apart").then(|| hub_apart = true),
                "secret" => is_secret(value).then(|| secret = Some(value.to_string())),
                _ => None,
            };
            if known.is_none() || more.is_some() {
                return Err(format!(
                    "line {} should be `ranks N`, `master HOST:PORT`, `hub apart` or `secret` and {SECRET_DIGITS} hexadecimal digits",
                    number + 1
                ));
            }
        }
        let lacks = |name: &str| format!("it has no line `{name}`");
        Ok(Portfile {
            ranks: ranks.ok_or_else(|| lacks("ranks"))?,
            master: master.ok_or_else(|| lacks("master"))?,
            hub_apart,
            secret: secret.ok_or_else(|| lacks("secret"))?,
        })
    }

    /// The file.
    pub fn text(&self) -> String {
        let Portfile { ranks, master, hub_apart, secret } = self;
        let hub = if *hub_apart { "hub apart\n" } else { "" };
        format!("# The parts of a job find each other by this; it holds their secret.\nranks {ranks}\nmaster {master}\n{hub}secret {secret}\n")
    }

    /// The key of the job.
    pub(super) fn key(&self) -> [u8; 32] {
        derive_key(self.secret.as_bytes())
    }
}

fn is_secret(word: &str) -> bool {
    word.len() == SECRET_DIGITS && word.bytes().all(|letter| letter.is_ascii_hexdigit())
}

/// The key that a file's secret stands for.
pub(super) fn derive_key(secret: &[u8]) -> [u8; 32] {
    blake3::derive_key("kumiki secret file version 1", secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_written_is_read_again() {
        let file = Portfile::new(5, "10.1.0.7:41235".into(), &[0xa5; 32]);
        assert_eq!(Portfile::parse(&file.text()), Ok(file.clone()));
        assert!(!format!("{file:?}").contains("a5a5"));
        let by_hand = file.text().replace("hub apart\n", "\n  # rank 0 does it\n");
        assert_eq!(Portfile::parse(&by_hand), Ok(Portfile { hub_apart: false, ..file }));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let good = Portfile::new(2, "h:1".into(), &[1; 32]).text();
        for (from, to, said) in [
            ("ranks 2", "ranks 0", "line 2"),
            ("ranks 2", "ranks 2 3", "line 2"),
            ("ranks 2", "", "no line `ranks`"),
            ("master h:1", "master h", "line 3"),
            ("hub apart", "hub here", "line 4"),
            ("secret 01", "secret 1", "line 5"),
            ("secret", "# secret", "no line `secret`"),
        ] {
            let error = Portfile::parse(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(said), "{to}: {error}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let path = std::env::temp_dir().join(format!("kumiki-portfile-{}", std::process::id()));
        let name = path.to_str().unwrap();
        std::fs::write(&path, Portfile::new(2, "h:1".into(), &[1; 32]).text()).unwrap();
        for (mode, good) in [(0o644, false), (0o600, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let read = Portfile::read(name);
            assert!(read.is_ok() == good, "{read:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Portfile::read(name).unwrap_err().to_string().contains("No such file"));
    }
}
