//! The first pass, over the text as the user wrote it: each `#pragma xmp` becomes ordinary text between two markers, so that the
//! preprocessor expands macros inside; the names of included files may be replaced. Lines stay lines.

/// What stands before a directive of XcalableMP, and of this translator's own, and what ends one.
pub(crate) const BEGIN_XMP: &str = "__kxmp_begin_xmp__";
pub(crate) const BEGIN_KUMIKI: &str = "__kxmp_begin_kumiki__";
pub(crate) const END: &str = "__kxmp_end__";

/// Makes the text that the preprocessor shall read. `include` is asked for each `#include "name"` and `#include <name>`, told whether
/// it is the form with quotes, and may give the path of a file to read instead.
///
/// ```
/// let marked = kumiki_xmp::mark("#pragma xmp nodes p[N]\nint i;\n", &mut |_, _| None);
/// assert!(marked.contains("nodes p[N]") && !marked.contains('#'));
/// assert_eq!(marked.lines().count(), 2);
/// ```
pub fn mark(text: &str, include: &mut dyn FnMut(&str, bool) -> Option<String>) -> String {
    let mut marker = Marker { text, at: 0, out: String::with_capacity(text.len() + 64), include };
    marker.run();
    marker.out
}

struct Marker<'a> {
    text: &'a str,
    at: usize,
    out: String,
    include: &'a mut dyn FnMut(&str, bool) -> Option<String>,
}

impl Marker<'_> {
    fn run(&mut self) {
        while self.at < self.text.len() {
            self.line();
        }
    }

    /// One line and what it is continued by.
    fn line(&mut self) {
        let begin = self.at;
        let after = skip_blank(self.text, begin);
        if self.text[after..].starts_with('#') {
            let end = logical_end(self.text, after);
            let line = &self.text[after..end];
            self.at = end;
            // A comment before the sign would hide it from a preprocessor that keeps comments.
            let before: String =
                self.text[begin..after].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
            self.out.push_str(&before);
            self.directive(line);
            return;
        }
        self.plain();
    }

    fn directive(&mut self, line: &str) {
        let rest = line[1..].trim_start_matches([' ', '\t']);
        if let Some(words) = rest.strip_prefix("pragma") {
            let words = words.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
            for (vendor, begin) in [("xmp", BEGIN_XMP), ("kumiki", BEGIN_KUMIKI)] {
                let Some(tail) = words.strip_prefix(vendor) else { continue };
                if tail.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
                    continue;
                }
                // To a preprocessor it would end the line by itself.
                let (tail, ending) = tail.strip_suffix('\r').map_or((tail, ""), |tail| (tail, "\r"));
                let lost = line[..line.len() - tail.len() - ending.len()].matches('\n').count();
                let words = without_comments(tail);
                self.out.push_str(&format!("{begin} {}{words} {END}{ending}", "\n".repeat(lost)));
                return;
            }
        }
        if let Some(name) = rest.strip_prefix("include").map(str::trim_start) {
            if let Some((name, quoted)) = included(name) {
                if let Some(path) = (self.include)(name, quoted) {
                    self.out.push_str(&format!("#include \"{path}\""));
                    return;
                }
            }
        }
        self.out.push_str(line);
    }

    /// Copies to the end of a line, whole comments and literals included.
    fn plain(&mut self) {
        let bytes = self.text.as_bytes();
        let begin = self.at;
        let mut at = begin;
        while at < bytes.len() {
            match bytes[at] {
                b'\n' => {
                    at += 1;
                    break;
                }
                b'"' | b'\'' => at = literal_end(bytes, at),
                b'/' if bytes.get(at + 1) == Some(&b'*') => at = comment_end(self.text, at),
                b'/' if bytes.get(at + 1) == Some(&b'/') => at = logical_end(self.text, at),
                _ => at += 1,
            }
        }
        self.at = at.min(bytes.len());
        self.out.push_str(&self.text[begin..self.at]);
    }
}

fn included(name: &str) -> Option<(&str, bool)> {
    let (close, quoted) = match name.as_bytes().first()? {
        b'"' => ('"', true),
        b'<' => ('>', false),
        _ => return None,
    };
    let end = name[1..].find(close)?;
    Some((&name[1..=end], quoted))
}

/// Behind white space of the line and comments.
fn skip_blank(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    loop {
        match bytes.get(at) {
            Some(b' ' | b'\t' | b'\r') => at += 1,
            Some(b'/') if bytes.get(at + 1) == Some(&b'*') => at = comment_end(text, at),
            _ => return at,
        }
    }
}

/// Where a line ends with those that continue it: at its line feed. A comment that goes over several lines belongs to it.
fn logical_end(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    let line_comment = text[at..].starts_with("//");
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => {
                let before = text[..at].trim_end_matches('\r');
                if !before.ends_with('\\') {
                    return at;
                }
                at += 1;
            }
            b'/' if !line_comment && bytes.get(at + 1) == Some(&b'*') => at = comment_end(text, at),
            b'"' if !line_comment => at = literal_end(bytes, at),
            _ => at += 1,
        }
    }
    bytes.len()
}

fn comment_end(text: &str, at: usize) -> usize {
    text.get(at + 2..).and_then(|rest| rest.find("*/")).map_or(text.len(), |found| at + 2 + found + 2)
}

/// Behind a literal, or at the end of the line if it is not closed.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let mut end = at + 1;
    while end < bytes.len() {
        match bytes[end] {
            b'\\' => end += 2,
            b'\n' => return end,
            byte if byte == quote => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// A directive without comments and continuations, as many lines as before.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("/*") {
            let end = comment_end(rest, 0);
            out.push(' ');
            out.extend(rest[..end].chars().filter(|c| *c == '\n'));
            rest = &rest[end..];
        } else if rest.starts_with("//") {
            out.extend(rest.chars().filter(|c| *c == '\n'));
            break;
        } else if c == '\\' && rest[1..].trim_start_matches('\r').starts_with('\n') {
            out.push(' ');
            rest = &rest[1..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> String {
        mark(text, &mut |_, _| None)
    }

    #[test]
    fn directives_become_text_and_lines_stay() {
        let text = "a\n # pragma xmp nodes \\\n  p(N) // four\n/* x */ #pragma xmp barrier /* y\n z */\nb\n";
        let out = marked(text);
        assert_eq!(out.lines().count(), text.lines().count(), "{out}");
        assert!(out.contains("__kxmp_begin_xmp__  nodes  \n  p(N)  __kxmp_end__"), "{out}");
        assert!(!out.contains("four") && !out.contains('z'), "{out}");
        assert!(out.ends_with("__kxmp_end__\nb\n"), "{out}");
    }

    #[test]
    fn a_directive_ends_on_its_line_where_lines_end_with_two_characters() {
        let out = marked("#pragma xmp nodes p[ // x\r\n#pragma xmp task \\\r\n on p\r\nint i;\r\n");
        assert!(out.starts_with("__kxmp_begin_xmp__  nodes p[  __kxmp_end__"), "{out:?}");
        assert!(out.ends_with("on p __kxmp_end__\r\nint i;\r\n"), "{out:?}");
    }

    #[test]
    fn what_only_looks_like_a_directive_stays() {
        for text in [
            "/*\n#pragma xmp barrier\n*/\n",
            "s = \"\\\n#pragma xmp\";\n",
            "#pragma omp for\n",
            "#pragma xmpx\n",
        ] {
            assert_eq!(marked(text), text);
        }
    }

    #[test]
    fn included_files_are_asked_for() {
        let mut asked = Vec::new();
        let out = mark("#include <a.h>\n# include \"b.h\" // c\n", &mut |name, quoted| {
            asked.push((name.to_owned(), quoted));
            quoted.then(|| "/t/b.h".into())
        });
        assert_eq!(asked, [("a.h".to_owned(), false), ("b.h".to_owned(), true)]);
        assert_eq!(out, "#include <a.h>\n#include \"/t/b.h\"\n");
    }
}
