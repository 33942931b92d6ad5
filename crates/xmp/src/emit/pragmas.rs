//! Pragmas of OpenMP: a distributed array or a coarray is no variable of the translated text, so their clauses cannot name it.

use super::Translator;
use crate::source::Span;

impl Translator<'_, '_> {
    /// Looks at the pragmas of others in a block whose names are declared; those of blocks inside are looked at again there.
    pub(super) fn settle_pragmas(&mut self, block: Span) {
        let first = self.source.foreign.partition_point(|pragma| pragma.start < block.start);
        for pragma in self.source.foreign[first..].iter().take_while(|pragma| pragma.end <= block.end) {
            let text = self.slice(*pragma);
            let words = text.trim_start_matches(['#', ' ', '\t']).trim_start_matches("pragma").trim_start();
            if words.starts_with("omp") {
                let is_ours = |name: &str| self.scopes.var(name).is_some_and(|var| !var.is_plain());
                let settled = without(text, &is_ours);
                self.pragmas.insert(pragma.start, settled);
            }
        }
    }

    /// Text that is copied, with its pragmas settled.
    pub(super) fn verbatim(&self, span: Span) -> String {
        let mut out = String::with_capacity(span.end.saturating_sub(span.start));
        let first = self.source.foreign.partition_point(|pragma| pragma.start < span.start);
        let mut at = span.start;
        for pragma in self.source.foreign[first..].iter().take_while(|pragma| pragma.end <= span.end) {
            if let Some(text) = self.pragmas.get(&pragma.start) {
                out.push_str(self.slice(Span::new(at, pragma.start)));
                out.push_str(text);
                at = pragma.end;
            }
        }
        out.push_str(self.slice(Span::new(at, span.end)));
        out
    }
}

/// Takes names out of `shared` and `firstprivate`; what the translated text adds is shared.
fn without(text: &str, is_ours: &dyn Fn(&str) -> bool) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((open, close)) = rest.find('(').and_then(|open| Some((open, closing(rest, open)?))) {
        let (head, list) = (&rest[..open], &rest[open + 1..close]);
        let word =
            head.trim_end().rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
        rest = &rest[close + 1..];
        let kept: Vec<&str> = list.split(',').map(str::trim).filter(|name| !is_ours(name)).collect();
        match word {
            "shared" | "firstprivate" if kept.is_empty() => {
                out.push_str(&head[..head.trim_end().len() - word.len()]);
                match out.trim_end().strip_suffix(',') {
                    Some(before) => out = before.to_owned(),
                    None => rest = rest.trim_start().strip_prefix(',').unwrap_or(rest),
                }
            }
            "shared" | "firstprivate" => out.push_str(&format!("{head}({})", kept.join(", "))),
            "default" if list.trim() == "none" => out.push_str(&format!("{head}(shared)")),
            _ => out.push_str(&format!("{head}({list})")),
        }
    }
    out + rest
}

fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_lose_what_is_distributed() {
        let ours = |name: &str| name == "a" || name == "b";
        let line = |text: &str| without(text, &ours);
        assert_eq!(line("omp for shared(a,b) private(i)"), "omp for  private(i)");
        assert_eq!(line("omp for shared(a, x), private(i)"), "omp for shared(x), private(i)");
        assert_eq!(line("omp for private(i), shared(a)"), "omp for private(i)");
        assert_eq!(line("omp for firstprivate(b), private(i)"), "omp for  private(i)");
        assert_eq!(line("omp for default(none) reduction(+:s)"), "omp for default(shared) reduction(+:s)");
    }
}
