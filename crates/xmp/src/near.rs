//! Names that are written nearly as one that does not exist: for advice.

/// The known name that is nearest to a wrong one, if it is near: a letter in three may be another, missing or too many, or two be exchanged.
pub(crate) fn near<'n>(wrong: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let most = (wrong.len() / 3).max(1);
    let found = known.filter(|name| *name != wrong).map(|name| (away(wrong, name), name));
    // Of one letter any other would be near.
    let found =
        found.filter(|(away, name)| *away <= most && (wrong.len() > 1 || wrong.eq_ignore_ascii_case(name)));
    found.min().map(|(_, name)| name)
}

/// How many letters must be changed, put in, taken out or exchanged with the next; upper and lower case are the same.
fn away(one: &str, other: &str) -> usize {
    let letters = |text: &str| text.bytes().map(|byte| byte.to_ascii_lowercase()).collect::<Vec<_>>();
    let (one, other) = (letters(one), letters(other));
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let changed = row[j] + usize::from(a != b);
            let mut best = changed.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_if_it_is_near() {
        let known = ["temp", "grid", "velocity", "u", "v"];
        let near = |wrong| near(wrong, known.iter().copied());
        assert_eq!(near("velocty"), Some("velocity"));
        assert_eq!(near("gird"), Some("grid"));
        assert_eq!(near("Temp"), Some("temp"));
        assert_eq!(near("U"), Some("u"));
        assert_eq!(near("w"), None);
        assert_eq!(near("pressure"), None);
    }
}
