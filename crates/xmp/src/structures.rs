//! Members of structures that are distributed. Each becomes an array of its own, beside the variable, before anything else looks at the text:
//!
//! ```text
//! struct { int n; double a[N];  align a[i] with t[i]  } s;      s.a[i] = s.n;
//! struct { int n;                                     } s; double s__a[N];  align s__a[i] with t[i]      s__a[i] = s.n;
//! ```
//!
//! Lines stay lines.

use crate::mark::{BEGIN_XMP, END};
use crate::source::{Kind, Problem, Result, Source, Span, Token};
use std::collections::HashMap;

/// A member that is distributed: its declaration before and behind the name.
struct Member {
    name: String,
    before: String,
    behind: String,
}

/// A structure with such members.
struct Structure {
    members: Vec<Member>,
    /// The words of its directives.
    directives: Vec<Vec<String>>,
}

/// A variable of such a type, and how many braces were open where it was declared.
struct Variable {
    of: usize,
    depth: usize,
}

struct Flattener<'s, 'a> {
    source: &'s Source<'a>,
    tokens: Vec<Token>,
    structures: Vec<Structure>,
    /// By `struct tag`, or the name that a typedef gives.
    tags: HashMap<String, usize>,
    types: HashMap<String, usize>,
    variables: HashMap<String, Vec<Variable>>,
    edits: Vec<(Span, String)>,
}

/// The text with such members taken out of their structures; None where there are none.
pub(crate) fn flattened(source: &Source<'_>) -> Result<Option<String>> {
    let is_in_body = |pair: &[Token]| {
        matches!(pair[1].kind, Kind::Directive(_)) && matches!(source.slice(pair[0].span), "{" | ";")
    };
    let may_be = |token: &Token| source.slice(token.span) == "struct";
    if !source.tokens.iter().any(may_be) || !source.tokens.windows(2).any(is_in_body) {
        return Ok(None);
    }
    // A directive stands for itself, with its words behind it.
    let mut tokens = Vec::new();
    for token in &source.tokens {
        tokens.push(*token);
        if let Kind::Directive(index) = token.kind {
            tokens.extend(&source.directives[index].tokens);
        }
    }
    let mut flattener = Flattener {
        source,
        tokens,
        structures: Vec::new(),
        tags: HashMap::new(),
        types: HashMap::new(),
        variables: HashMap::new(),
        edits: Vec::new(),
    };
    flattener.run()?;
    Ok((!flattener.structures.is_empty()).then(|| flattener.text()))
}

impl Flattener<'_, '_> {
    fn word(&self, at: usize) -> &str {
        match self.tokens.get(at) {
            Some(token) if matches!(token.kind, Kind::Directive(_)) => "",
            Some(token) => self.source.slice(token.span),
            None => "",
        }
    }

    fn is_name(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == Kind::Word)
    }

    /// The text from one token to the one before another, in one line.
    fn between(&self, from: usize, to: usize) -> String {
        let words: Vec<&str> = (from..to).map(|at| self.word(at)).filter(|word| !word.is_empty()).collect();
        words.join(" ")
    }

    fn run(&mut self) -> Result<()> {
        let (mut at, mut depth, mut begin) = (0, 0_usize, 0);
        while at < self.tokens.len() {
            match self.word(at) {
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    self.variables
                        .values_mut()
                        .for_each(|all| all.retain(|variable| variable.depth <= depth));
                }
                _ => {}
            }
            if let Kind::Directive(index) = self.tokens[at].kind {
                begin = at + 1 + self.source.directives[index].tokens.len();
            } else if matches!(self.word(at), "{" | "}" | ";") {
                begin = at + 1;
            }
            let known = match self.word(at) {
                "struct" => self.structure(at)?,
                word => self.types.get(word).map(|of| (*of, at + 1)),
            };
            at = match known {
                Some((of, behind)) => self.declared(of, begin, behind, depth)?,
                None => {
                    self.used(at)?;
                    at + 1
                }
            };
        }
        Ok(())
    }

    /// `v.member` of a variable.
    fn used(&mut self, at: usize) -> Result<()> {
        let Some(variable) = self.variables.get(self.word(at)).and_then(|all| all.last()) else {
            return Ok(());
        };
        if at > 0 && matches!(self.word(at - 1), "." | "->") {
            return Ok(());
        }
        // Macros write `(v).member`.
        let is_around =
            |many: &usize| at > *many && self.word(at - many - 1) == "(" && self.word(at + many + 1) == ")";
        let around = (0..).take_while(is_around).count();
        if self.word(at + around + 1) != "." {
            return Err(Problem::new(
                self.tokens[at].span.start,
                "this structure has distributed members: assign one member after the other, those by gmove; as a whole it cannot be used, and nothing else may have its name",
            ));
        }
        let (first, last) = (at - around, at + around + 2);
        let member = self.word(last);
        if self.structures[variable.of].members.iter().any(|one| one.name == member) {
            let name = joined(self.word(at), member);
            self.edits.push((self.tokens[first].span.to(self.tokens[last].span), name));
        }
        Ok(())
    }

    /// `struct tag`, with or without its members: which one it is, and what stands behind it.
    fn structure(&mut self, at: usize) -> Result<Option<(usize, usize)>> {
        let tag = self.is_name(at + 1).then(|| self.word(at + 1).to_owned());
        let open = at + 1 + usize::from(tag.is_some());
        if self.word(open) != "{" {
            return Ok(tag.and_then(|tag| self.tags.get(&tag)).map(|of| (*of, open)));
        }
        let Some(close) = self.closed(open) else { return Ok(None) };
        let names = self.aligned(open, close);
        if names.is_empty() {
            // Another structure has the name from here on.
            tag.and_then(|tag| self.tags.remove(&tag));
            return Ok(None);
        }
        let of = self.structures.len();
        let structure = self.taken_out(open, close, &names);
        let is_missing = |name: &&(String, usize)| !structure.members.iter().any(|one| one.name == name.0);
        if let Some((name, at)) = names.iter().find(is_missing) {
            return Err(Problem::new(*at, format!("`{name}` is no member of this structure")));
        }
        self.structures.push(structure);
        if let Some(tag) = tag {
            self.tags.insert(tag, of);
        }
        Ok(Some((of, close + 1)))
    }

    fn closed(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        (open..self.tokens.len()).find(|&at| {
            match self.word(at) {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    }

    /// The directives in a body: where each is, and where its words end.
    fn directives(&self, open: usize, close: usize) -> Vec<(usize, usize)> {
        let mut list = Vec::new();
        for at in open..close {
            if let Kind::Directive(index) = self.tokens[at].kind {
                list.push((at, at + 1 + self.source.directives[index].tokens.len()));
            }
        }
        list
    }

    /// The names that align directives in a body have outside of brackets, and where.
    fn aligned(&self, open: usize, close: usize) -> Vec<(String, usize)> {
        let mut names = Vec::new();
        for (at, end) in self.directives(open, close) {
            if self.word(at + 1) != "align" {
                continue;
            }
            let mut depth = 0;
            for word in at + 2..end {
                match self.word(word) {
                    "[" | "(" => depth += 1,
                    "]" | ")" => depth -= 1,
                    name if depth == 0 && name != "with" && self.word(word - 1) != "with" => {
                        let at = self.tokens[word].span.start;
                        names.extend(self.is_name(word).then(|| (name.to_owned(), at)));
                    }
                    _ => {}
                }
            }
        }
        names
    }

    /// Takes these members, and the directives, out of a body.
    fn taken_out(&mut self, open: usize, close: usize, names: &[(String, usize)]) -> Structure {
        let mut structure = Structure { members: Vec::new(), directives: Vec::new() };
        for (at, end) in self.directives(open, close) {
            structure.directives.push((at + 1..end).map(|word| self.word(word).to_owned()).collect());
            self.edits.push((self.tokens[at].span, String::new()));
        }
        let mut at = open + 1;
        while at < close {
            if let Kind::Directive(index) = self.tokens[at].kind {
                at += 1 + self.source.directives[index].tokens.len();
                continue;
            }
            let end = self.end_of(at, close, &[";"]);
            self.taken_from(at, end, names, &mut structure.members);
            at = end + 1;
        }
        structure
    }

    /// The first of some signs outside of brackets.
    fn end_of(&self, from: usize, close: usize, signs: &[&str]) -> usize {
        let mut depth = 0;
        for at in from..close {
            match self.word(at) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                word if depth == 0 && signs.contains(&word) => return at,
                _ => {}
            }
        }
        close
    }

    /// One declaration of members, `double a[N], *b, c`.
    fn taken_from(&mut self, from: usize, end: usize, names: &[(String, usize)], members: &mut Vec<Member>) {
        let mut kept = Vec::new();
        let mut spec = String::new();
        let (mut at, before) = (from, members.len());
        while at < end {
            let comma = self.end_of(at, end, &[","]);
            let bracket = (at..comma).find(|&word| self.word(word) == "[").unwrap_or(comma);
            let Some(name) = (at..bracket).rev().find(|&word| self.is_name(word)) else { break };
            if at == from {
                let stars = (from..name).rev().take_while(|&word| matches!(self.word(word), "*" | "("));
                let first = stars.last().unwrap_or(name);
                spec = self.between(from, first);
                at = first;
            }
            if names.iter().any(|(one, _)| one == self.word(name)) {
                members.push(Member {
                    name: self.word(name).to_owned(),
                    before: format!("{spec} {}", self.between(at, name)),
                    behind: self.between(name + 1, comma),
                });
            } else {
                kept.push(self.between(at, comma));
            }
            at = comma + 1;
        }
        if members.len() > before {
            let text = match kept.is_empty() {
                true => String::new(),
                false => format!("{spec} {};", kept.join(", ")),
            };
            let last = end.min(self.tokens.len() - 1);
            self.edits.push((self.tokens[from].span.to(self.tokens[last].span), text));
        }
    }

    /// What is declared with such a type. Gives where to go on.
    fn declared(&mut self, of: usize, begin: usize, mut at: usize, depth: usize) -> Result<usize> {
        let storage = match self.word(begin) {
            "typedef" => {
                while self.is_name(at) && matches!(self.word(at + 1), "," | ";") {
                    let name = self.word(at).to_owned();
                    self.types.insert(name, of);
                    at += 1 + usize::from(self.word(at + 1) == ",");
                }
                return self.ends_there(at).map(|()| at);
            }
            "static" => "static ",
            "extern" => "extern ",
            _ => "",
        };
        let mut made = String::new();
        while self.is_name(at) && matches!(self.word(at + 1), "," | ";") {
            let name = self.word(at).to_owned();
            made.push_str(&self.structures[of].declared(storage, &name));
            self.variables.entry(name).or_default().push(Variable { of, depth });
            at += 1 + usize::from(self.word(at + 1) == ",");
        }
        self.ends_there(at)?;
        let end = self.tokens[at].span.end;
        self.edits.push((Span::new(end, end), made));
        Ok(at)
    }

    /// Fails if a declaration has more than names.
    fn ends_there(&self, at: usize) -> Result<()> {
        match self.word(at) {
            ";" => Ok(()),
            _ => Err(Problem::new(
                self.tokens.get(at).map_or(0, |token| token.span.start),
                "a structure with distributed members can only be a variable without an initialiser, no pointer, array or parameter",
            )),
        }
    }

    fn text(mut self) -> String {
        self.edits.sort_by_key(|(span, _)| (span.start, span.end));
        let mut out = String::new();
        let mut at = 0;
        for (span, text) in &self.edits {
            // What was taken out with all around it.
            if span.start < at {
                continue;
            }
            out.push_str(&self.source.text[at..span.start]);
            out.push_str(text);
            out.extend(self.source.slice(*span).chars().filter(|c| *c == '\n'));
            at = span.end;
        }
        out.push_str(&self.source.text[at..]);
        out
    }
}

impl Structure {
    /// The arrays of a variable, and their directives.
    fn declared(&self, storage: &str, variable: &str) -> String {
        let mut out = String::new();
        for Member { name, before, behind } in &self.members {
            out.push_str(&format!(" {storage}{before} {} {behind};", joined(variable, name)));
        }
        for words in &self.directives {
            out.push_str(&format!(" {BEGIN_XMP}"));
            let mut depth = 0;
            for word in words {
                match word.as_str() {
                    "[" | "(" => depth += 1,
                    "]" | ")" => depth -= 1,
                    _ => {}
                }
                let is_member = depth == 0 && self.members.iter().any(|member| member.name == *word);
                out.push(' ');
                out.push_str(&if is_member { joined(variable, word) } else { word.clone() });
            }
            out.push_str(&format!(" {END}"));
        }
        out
    }
}

/// The array that a member of a variable is.
fn joined(variable: &str, member: &str) -> String {
    format!("{variable}__{member}")
}
