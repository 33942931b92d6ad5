//! The arguments that the launcher of ACP adds to those of a program: `--acp-NAME VALUE`.
//!
//! Our own launcher adds none, but programs are started by hand with them, too. They are taken out of the arguments wherever
//! they are. A program that has called `getopt` before has had its arguments sorted: options with what it knows to belong to
//! them first, then everything else, from `optind` on; the values then stand there, in the same order.

/// What an option takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A number, perhaps with K, M or G.
    Number,
    /// The same, of bytes.
    Size,
    /// Anything.
    Text,
}

/// The options, and what they are for.
const OPTIONS: [(&str, Kind, &str); 17] = [
    ("size-smem", Kind::Size, "bytes of starter memory"),
    ("size-smem-cl", Kind::Size, "memory of the communication library; taken as it is needed"),
    ("size-smem-dl", Kind::Size, "memory of the data library; taken as it is needed"),
    ("malloc-hook-small", Kind::Number, "of no effect"),
    ("malloc-hook-large", Kind::Number, "of no effect"),
    ("malloc-hook-huge", Kind::Number, "of no effect"),
    ("malloc-hook-low", Kind::Number, "of no effect"),
    ("malloc-hook-high", Kind::Number, "of no effect"),
    ("ethernet-speed", Kind::Number, "of no effect"),
    ("taskid", Kind::Text, "of no effect"),
    ("portfile", Kind::Text, "file in which the parts of a job find each other"),
    ("offsetrank", Kind::Number, "number of the first rank of this part"),
    ("myrank", Kind::Number, "rank, which the launcher knows"),
    ("nprocs", Kind::Number, "number of processes, which the launcher knows"),
    ("port-local", Kind::Number, "of no effect"),
    ("host-remote", Kind::Text, "of no effect"),
    ("port-remote", Kind::Number, "of no effect"),
];

const PREFIX: &str = "--acp-";

/// More than any machine has.
const MOST_BYTES: u64 = 1 << 46;

/// What the arguments say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Options {
    /// Starter memory.
    pub(super) starter_bytes: Option<u64>,
    /// How many processes there should be.
    pub(super) processes: Option<u64>,
    /// The file in which the parts of the job find each other, if it is in parts.
    pub(super) portfile: Option<String>,
    /// The number of the first rank of this part.
    pub(super) offset: u32,
}

/// Takes the options out of arguments: what they say, and the indices of the arguments that are left, in order. `getopt` has
/// seen those before `seen`.
pub(super) fn take(arguments: &[&[u8]], seen: usize) -> Result<(Options, Vec<usize>), String> {
    let texts: Vec<String> =
        arguments.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let end = texts.iter().position(|word| word == "--").unwrap_or(texts.len());
    let mut taken = vec![false; texts.len()];
    let mut found = Vec::new();
    let mut sorted = false;
    for (at, word) in texts.iter().enumerate().take(end).skip(1) {
        let Some(rest) = word.strip_prefix(PREFIX).filter(|_| !taken[at]) else { continue };
        let (name, inline) = match rest.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (rest, None),
        };
        let option = OPTIONS.iter().find(|(known, ..)| *known == name);
        let option = *option.ok_or_else(|| format!("there is no option {PREFIX}{name}"))?;
        taken[at] = true;
        if let Some(value) = inline.as_deref().filter(|value| !fits(option.1, value)) {
            return Err(wrong(name, value));
        }
        let value = inline.or_else(|| {
            let next = texts.get(at + 1).filter(|next| at + 1 < end && fits(option.1, next))?;
            taken[at + 1] = true;
            Some(next.clone())
        });
        // What looks like a number that cannot be is the value. `getopt` would not have put it there.
        let next = texts
            .get(at + 1)
            .filter(|next| value.is_none() && at + 1 < end && seen <= 1 && is_like_a_number(next));
        if let Some(next) = next {
            return Err(wrong(name, next));
        }
        sorted |= value.is_none();
        found.push((at, option, value));
    }
    if sorted {
        find_sorted_values(&texts, seen, &mut taken, &mut found)?;
    }
    let mut options = Options::default();
    for (_, (name, kind, _), value) in found {
        let value = value.filter(|value| fits(kind, value));
        let value = value.ok_or_else(|| format!("{PREFIX}{name} needs a value"))?;
        match name {
            "size-smem" => options.starter_bytes = number(&value),
            "nprocs" => options.processes = number(&value),
            "portfile" => options.portfile = Some(value),
            "offsetrank" => options.offset = rank(&value)?,
            _ => {}
        }
    }
    Ok((options, (0..texts.len()).filter(|&index| !taken[index]).collect()))
}

type Found = (usize, (&'static str, Kind, &'static str), Option<String>);

/// After `getopt` has sorted the arguments: gives each option, in order, the next argument behind all options that it can take.
fn find_sorted_values(
    texts: &[String],
    seen: usize,
    taken: &mut [bool],
    found: &mut [Found],
) -> Result<(), String> {
    for (at, _, value) in found.iter_mut().filter(|(at, ..)| !texts[*at].contains('=')) {
        if value.take().is_some() {
            taken[*at + 1] = false;
        }
    }
    let last = texts.iter().rposition(|word| word.starts_with('-') && word.len() > 1).unwrap_or(0);
    let mut from = seen.max(last + 1);
    for (at, (name, kind, _), value) in found.iter_mut().filter(|(.., value)| value.is_none()) {
        let next = (from..texts.len()).find(|&index| fits(*kind, &texts[index]));
        let next = next.ok_or_else(|| {
            match texts.get(*at + 1).filter(|next| !next.starts_with('-') && !fits(*kind, next)) {
                Some(next) => wrong(name, next),
                None => format!("{PREFIX}{name} needs a value"),
            }
        })?;
        taken[next] = true;
        *value = Some(texts[next].clone());
        from = next + 1;
    }
    Ok(())
}

/// What is said of a value that an option cannot have.
fn wrong(name: &str, value: &str) -> String {
    let kind = OPTIONS.iter().find(|(known, ..)| *known == name).map(|(_, kind, _)| *kind);
    let right = match kind {
        Some(Kind::Size) => format!("a size from 0 to {MOST_BYTES} bytes, such as 4096, 64K, 1M or 1G"),
        Some(Kind::Number) => "a number, 0 or more".into(),
        _ => "a word".into(),
    };
    format!("{PREFIX}{name} {value}: it should be {right}")
}

/// Whether a word may be meant as a number.
fn is_like_a_number(word: &str) -> bool {
    word.strip_prefix(['-', '+']).unwrap_or(word).starts_with(|letter: char| letter.is_ascii_digit())
}

fn fits(kind: Kind, value: &str) -> bool {
    match kind {
        Kind::Number => number(value).is_some(),
        Kind::Size => number(value).is_some_and(|bytes| bytes <= MOST_BYTES),
        Kind::Text => !value.is_empty() && !value.starts_with("--"),
    }
}

fn rank(value: &str) -> Result<u32, String> {
    let rank = number(value).and_then(|rank| u32::try_from(rank).ok());
    rank.ok_or_else(|| format!("{PREFIX}offsetrank {value} is too large"))
}

/// A number, perhaps with K, M or G (powers of 1024).
fn number(text: &str) -> Option<u64> {
    let (digits, shift) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(digits) => (digits, 20),
            None => text.strip_suffix(['G', 'g']).map_or((text, 0), |digits| (digits, 30)),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The text for somebody who gave a wrong option.
pub(super) fn usage(program: &str) -> String {
    let mut text = format!("usage: {program} [--acp-NAME VALUE]... [arguments of the program]\n");
    for (name, _, meaning) in OPTIONS {
        text.push_str(&format!("  {PREFIX}{name:<18} {meaning}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(line: &str) -> Result<(Options, String), String> {
        taken_after_getopt(line, 1)
    }

    fn taken_after_getopt(line: &str, seen: usize) -> Result<(Options, String), String> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (options, left) = take(&words, seen)?;
        let left: Vec<&str> = left.iter().map(|&at| std::str::from_utf8(words[at]).unwrap()).collect();
        Ok((options, left.join(" ")))
    }

    #[test]
    fn pairs_are_taken_wherever_they_are() {
        let (options, left) =
            taken("p a --acp-size-smem 4096 -v --acp-nprocs 4 b --acp-taskid x7 -n 3").unwrap();
        assert_eq!(left, "p a -v b -n 3");
        let expected = Options { starter_bytes: Some(4096), processes: Some(4), ..Options::default() };
        assert_eq!(options, expected);
        let (options, left) = taken("p --acp-portfile /a/b --acp-offsetrank 2 c").unwrap();
        assert_eq!((options.portfile.as_deref(), options.offset, left.as_str()), (Some("/a/b"), 2, "p c"));
        assert!(taken("p --acp-offsetrank 8G").unwrap_err().contains("too large"));
        let (options, left) = taken("p --acp-size-smem=2M -- --acp-what").unwrap();
        assert_eq!((options.starter_bytes, left.as_str()), (Some(2 << 20), "p -- --acp-what"));
        assert_eq!(taken("p x y").unwrap().1, "p x y");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(taken("p --acp-size 4").unwrap_err(), "there is no option --acp-size");
        for line in ["p --acp-size-smem", "p --acp-nprocs --acp-size-smem 4"] {
            assert!(taken(line).unwrap_err().contains("needs a value"), "{line}");
        }
        // A number of the program's own was taken instead.
        for value in ["x", "-5", "12x", "4KB", "99999999999999999999", "100000000G", "1T"] {
            for line in [format!("p --acp-size-smem {value}"), format!("p --acp-size-smem={value}")] {
                let error = taken(&line).unwrap_err();
                let expected = format!("--acp-size-smem {value}: it should be a size from 0 to");
                assert!(
                    error.starts_with(&expected) || value == "-5" && error.contains("-5"),
                    "{line}: {error}"
                );
            }
        }
        for value in ["-5", "12x", "100000000G"] {
            let error = taken(&format!("p --acp-size-smem {value} 100")).unwrap_err();
            assert!(error.contains(&format!("--acp-size-smem {value}: ")), "{error}");
        }
        assert!(taken("p --acp-nprocs -2").unwrap_err().contains("--acp-nprocs -2: it should be a number"));
        for (value, bytes) in [("7k", 7 << 10), ("3m", 3 << 20), ("2g", 2 << 30), ("5", 5)] {
            assert_eq!(taken(&format!("p --acp-size-smem {value}")).unwrap().0.starter_bytes, Some(bytes));
        }
    }

    #[test]
    fn values_that_getopt_has_moved_are_found() {
        // Was: p -r 5 file --acp-size-smem 4096 --acp-nprocs 1 -v
        let (options, left) = taken("p -r 5 --acp-size-smem --acp-nprocs -v file 4096 1").unwrap();
        assert_eq!((options.starter_bytes, options.processes), (Some(4096), Some(1)));
        assert_eq!(left, "p -r 5 -v file");
        // Was: p file -v --acp-size-smem 4096 -n 7; what belongs to -n is none of ours.
        let (options, left) = taken_after_getopt("p -v --acp-size-smem -n 7 file 4096", 5).unwrap();
        assert_eq!((options.starter_bytes, left.as_str()), (Some(4096), "p -v -n 7 file"));
    }

    #[test]
    fn the_usage_names_every_option() {
        assert!(OPTIONS.iter().all(|(name, ..)| usage("p").contains(name)));
    }
}
