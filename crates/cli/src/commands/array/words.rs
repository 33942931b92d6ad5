//! How index spaces are written on a command line: sizes, grids of nodes, distributions, shadows and sections.

use kumiki::array::{Format, Shadow, Sub};

/// Numbers with `x` or `,` between them: `1000x1000`.
pub(super) fn sizes(text: &str) -> Result<Vec<u64>, String> {
    let sizes: Option<Vec<u64>> = text.split(['x', ',']).map(|word| word.trim().parse().ok()).collect();
    sizes.ok_or_else(|| "it should be sizes such as 1000x1000".into())
}

/// A grid of nodes: `2x3`.
pub(super) fn grid(text: &str) -> Result<Vec<u32>, String> {
    let grid: Option<Vec<u32>> =
        text.split(['x', ',']).map(|word| word.trim().parse().ok().filter(|size| *size > 0)).collect();
    grid.ok_or_else(|| "it should be a number of nodes, or a grid of them such as 2x3".into())
}

/// Formats with commas between them: `block,cyclic(4),*`.
pub(super) fn formats(text: &str) -> Result<Vec<Format>, String> {
    split(text).iter().map(|word| format(word)).collect()
}

fn format(word: &str) -> Result<Format, String> {
    let (name, inside) = match word.split_once('(') {
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(inside) => (name.trim(), Some(inside.trim())),
            None => return Err(format!("{word}: there is no `)`")),
        },
        None => (word, None),
    };
    let wrong = || {
        format!(
            "{word}: it should be `*`, block, block(width), cyclic, cyclic(width) or gblock(size:size:..)"
        )
    };
    let width = |text: &str| text.parse::<u64>().ok().filter(|width| *width > 0).ok_or_else(wrong);
    match (name, inside) {
        ("*", None) => Ok(Format::None),
        ("block", None) => Ok(Format::Block(None)),
        ("block", Some(text)) => Ok(Format::Block(Some(width(text)?))),
        ("cyclic", None) => Ok(Format::Cyclic(1)),
        ("cyclic", Some(text)) => Ok(Format::Cyclic(width(text)?)),
        ("gblock", Some(text)) => {
            let sizes: Option<Vec<u64>> = text.split(':').map(|size| size.trim().parse().ok()).collect();
            Ok(Format::Irregular(sizes.ok_or_else(wrong)?.into()))
        }
        _ => Err(wrong()),
    }
}

/// A format as it is written.
pub(super) fn shown(format: &Format) -> String {
    match format {
        Format::None => "*".into(),
        Format::Block(None) => "block".into(),
        Format::Block(Some(width)) => format!("block({width})"),
        Format::Cyclic(1) => "cyclic".into(),
        Format::Cyclic(width) => format!("cyclic({width})"),
        Format::Irregular(sizes) => {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            format!("gblock({})", sizes.join(":"))
        }
    }
}

/// Widths with commas between them: `1`, `1:2` (below and above), `*` (full).
pub(super) fn shadows(text: &str) -> Result<Vec<Shadow>, String> {
    split(text).iter().map(|word| shadow(word)).collect()
}

fn shadow(word: &str) -> Result<Shadow, String> {
    if word == "*" {
        return Ok(Shadow::Full);
    }
    let (low, high) = word.split_once(':').unwrap_or((word, word));
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) => Ok(Shadow::Width { low, high }),
        _ => Err(format!("{word}: it should be a width, two of them (1:2, below and above) or `*` (full)")),
    }
}

/// Subscripts with commas between them, as `base:length:step`, of which each may be missing: `0:500,:,7`.
pub(super) fn section(text: &str) -> Result<Vec<Sub>, String> {
    split(text).iter().map(|word| subscript(word)).collect()
}

fn subscript(word: &str) -> Result<Sub, String> {
    let wrong =
        || format!("{word}: it should be an index, or base:length:step, of which each may be missing");
    let parts: Vec<&str> = word.split(':').map(str::trim).collect();
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text.parse::<i64>().map(Some).map_err(|_| wrong()),
    };
    match parts[..] {
        [index] => Ok(Sub::Index(number(index)?.ok_or_else(wrong)?)),
        ["", ""] => Ok(Sub::All),
        [base, count] => Ok(Sub::Range { base: number(base)?, count: number(count)?, step: 1 }),
        [base, count, step] => {
            let step = number(step)?.unwrap_or(1);
            Ok(Sub::Range { base: number(base)?, count: number(count)?, step })
        }
        _ => Err(wrong()),
    }
}

/// Words between commas that are not in brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let between = |letter: char| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ',' && depth == 0
    };
    text.split(between).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_understood() {
        assert_eq!(sizes("10x20x3").unwrap(), [10, 20, 3]);
        assert_eq!(grid("2,3").unwrap(), [2, 3]);
        let text = "block,cyclic(4),*,gblock(1:0:5),block(7),cyclic";
        let formats = formats(text).unwrap();
        assert_eq!(formats.iter().map(shown).collect::<Vec<_>>().join(","), text);
        assert_eq!(
            shadows("1,0:2,*").unwrap(),
            [Shadow::both(1), Shadow::Width { low: 0, high: 2 }, Shadow::Full]
        );
        let wanted = [
            Sub::Index(7),
            Sub::All,
            Sub::Range { base: Some(0), count: Some(5), step: 1 },
            Sub::Range { base: Some(9), count: None, step: -2 },
        ];
        assert_eq!(section("7,:,0:5,9::-2").unwrap(), wanted);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for wrong in ["blck", "cyclic(0)", "block(", "gblock", "gblock(a)", ""] {
            assert!(formats(wrong).is_err(), "{wrong}");
        }
        assert!(sizes("10xx").is_err() && sizes("-1").is_err() && grid("0").is_err());
        assert!(shadows("1:").is_err() && section("1:2:3:4").is_err() && section("").is_err());
    }
}
