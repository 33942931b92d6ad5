//! Coarrays of other images: get, put, and what is built of them.

use super::expressions::{bare, sections_in_chain};
use super::{grouped, long, longs, Translator};
use crate::ast::{Expr, ExprKind, Sub};
use crate::names::Coarray;
use crate::source::{Problem, Result, Span};
use std::rc::Rc;

/// `x[i]:[image]`, and members behind it.
struct Remote {
    coarray: Rc<Coarray>,
    image: String,
    part: String,
    ranks: usize,
    /// `.member`
    suffix: String,
    /// Of a member that is written: how many elements each of its own sections has, and the suffix with the second element of that section.
    sections: Vec<(String, String)>,
}

impl Remote {
    /// The arguments that name it.
    fn arguments(&self) -> String {
        format!("{}, {}, {}", self.coarray.handle(), self.image, self.part)
    }

    /// An expression of the type of what is meant.
    fn object(&self) -> String {
        format!("(*({} *)0){}", self.coarray.element, self.suffix)
    }

    /// The call that writes it, up to the side that it is written from.
    fn put(&self, place: &str) -> String {
        let Some(member) = self.suffix.strip_prefix('.') else {
            return format!("kxmp_coarray_put({place}, {}, ", self.arguments());
        };
        let element = &self.coarray.element;
        let offset = |member: &str| format!("__builtin_offsetof({element}, {member})");
        let range = |(count, next): &(String, String)| {
            let next = offset(next.strip_prefix('.').unwrap_or(next));
            format!("{{{count}, (long){next} - (long){}}}", offset(member))
        };
        let ranges: Vec<String> = self.sections.iter().map(range).collect();
        let ranges = if ranges.is_empty() { "{0, 0}".to_owned() } else { ranges.join(", ") };
        let object = self.object();
        format!(
            "kxmp_coarray_put_inside({place}, {}, &(const kxmp_inside){{{}, sizeof({object}), KXMP_TYPE_OF({object}), {}, {{{ranges}}}}}, ",
            self.arguments(),
            offset(member),
            self.sections.len()
        )
    }
}

impl Translator<'_, '_> {
    /// Whether this names memory of another image.
    pub(super) fn is_remote(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Image(..) => true,
            ExprKind::Paren(inner) | ExprKind::Member(inner, _) | ExprKind::Index(inner, _) => {
                self.is_remote(inner)
            }
            _ => false,
        }
    }

    fn is_whole(&self, expr: &Expr) -> bool {
        let ExprKind::Image(inner, _) = &bare(expr).kind else { return false };
        let (base, subs) = super::sides::split(inner);
        let coarray = self.scopes.var(self.slice(bare(base).span)).and_then(|var| var.coarray());
        coarray.is_some_and(|coarray| subs.len() < coarray.sizes.len())
    }

    /// `x:[1] = y;` of arrays.
    pub(super) fn is_whole_image(&self, left: &Expr, right: &Expr) -> bool {
        self.is_whole(left) || self.is_whole(right)
    }

    fn remote(&mut self, expr: &Expr) -> Result<Remote> {
        match &expr.kind {
            ExprKind::Paren(inner) => self.remote(inner),
            ExprKind::Member(inner, name) => {
                let mut remote = self.remote(inner)?;
                let sign =
                    if self.slice(Span::new(inner.span.end, name.start)).contains("->") { "->" } else { "." };
                remote.suffix.push_str(&format!("{sign}{}", self.slice(*name)));
                Ok(remote)
            }
            ExprKind::Index(inner, sub) => {
                let Sub::At(at) = &**sub else {
                    return Err(Problem::new(
                        expr.span.start,
                        "a section stands before the image: `x[0:n]:[image]`",
                    ));
                };
                let mut remote = self.remote(inner)?;
                let at = self.value(at)?;
                remote.suffix.push_str(&format!("[{at}]"));
                Ok(remote)
            }
            ExprKind::Image(inner, images) => self.image(inner, images),
            _ => Err(Problem::new(expr.span.start, "a coarray with an image is expected here")),
        }
    }

    /// What is written: sections of a member become ranges of it.
    fn target(&mut self, expr: &Expr) -> Result<Remote> {
        let remote = match &bare(expr).kind {
            ExprKind::Image(inner, images) if has_section_of_member(inner) => {
                self.member_target(inner, images)
            }
            _ => self.remote(expr),
        }?;
        match remote.suffix.is_empty() || remote.suffix.starts_with('.') && !remote.suffix.contains("->") {
            true => Ok(remote),
            false => Err(Problem::new(
                expr.span.start,
                "only members of a coarray itself can be written, not what a pointer of another image points to",
            )),
        }
    }

    fn member_target(&mut self, inner: &Expr, images: &[Expr]) -> Result<Remote> {
        let lengths = self.section_lengths(inner)?;
        let zeros = vec!["0".to_owned(); lengths.len()];
        let before = self.section.replace(zeros.clone());
        let mut found = self.suffix_of(inner);
        let mut sections = Vec::new();
        if let Ok((_, base)) = &found {
            for at in sections_in_chain(base)..lengths.len() {
                let mut second = zeros.clone();
                second[at] = "1".into();
                self.section = Some(second);
                match self.suffix_of(inner) {
                    Ok((next, _)) => sections.push((lengths[at].clone(), next)),
                    Err(problem) => found = Err(problem),
                }
                if found.is_err() {
                    break;
                }
            }
        }
        self.section = before;
        let (suffix, base) = found?;
        let remote = self.of_image(base, images, inner)?;
        let ranks = remote.ranks + sections.len();
        Ok(Remote { suffix, ranks, sections, ..remote })
    }

    fn image(&mut self, inner: &Expr, images: &[Expr]) -> Result<Remote> {
        let (suffix, base) = self.suffix_of(inner)?;
        Ok(Remote { suffix, ..self.of_image(base, images, inner)? })
    }

    /// Members that stand before the image, and what they are of.
    fn suffix_of<'e>(&mut self, inner: &'e Expr) -> Result<(String, &'e Expr)> {
        let mut suffix = String::new();
        let mut at = bare(inner);
        while last_member(at).is_some() {
            let (piece, base) = match &at.kind {
                ExprKind::Member(base, name) => {
                    let sign = self.slice(Span::new(base.span.end, name.start));
                    let sign = if sign.contains("->") { "->" } else { "." };
                    (format!("{sign}{}", self.slice(*name)), base)
                }
                ExprKind::Index(base, sub) => match &**sub {
                    Sub::At(index) => (format!("[{}]", self.value(index)?), base),
                    Sub::Section(span, first, _, step) => {
                        let index = self.section_index(base, *span, first.as_ref(), step.as_ref())?;
                        (format!("[{index}]"), base)
                    }
                },
                _ => break,
            };
            suffix.insert_str(0, &piece);
            at = bare(base);
        }
        Ok((suffix, at))
    }

    fn of_image(&mut self, at: &Expr, images: &[Expr], inner: &Expr) -> Result<Remote> {
        let (base, subs) = super::sides::split(at);
        let base = bare(base);
        let name = self.slice(base.span);
        let Some(coarray) = self.scopes.var(name).and_then(|var| var.coarray()) else {
            return Err(Problem::new(
                base.span.start,
                format!("`{name}` is no coarray: declare it so, `int {name}:[*];`"),
            ));
        };
        if images.len() != coarray.codims.len() {
            return Err(Problem::new(
                inner.span.end,
                format!("`{name}` has {} codimensions, but {} are given", coarray.codims.len(), images.len()),
            ));
        }
        if subs.len() > coarray.sizes.len() {
            return Err(Problem::new(
                inner.span.start,
                format!(
                    "`{name}` has {} dimensions, but {} subscripts are given",
                    coarray.sizes.len(),
                    subs.len()
                ),
            ));
        }
        let mut numbers = Vec::new();
        for image in images {
            let number = self.value(image)?;
            numbers.push(match self.images_from_1 {
                true => format!("{} - 1", long(&number)),
                false => number,
            });
        }
        let (part, ranks) = self.parts(&coarray, &subs)?;
        let (suffix, sections) = (String::new(), Vec::new());
        Ok(Remote { coarray, image: longs(&numbers), part, ranks, suffix, sections })
    }

    fn parts(&mut self, coarray: &Coarray, subs: &[&Sub]) -> Result<(String, usize)> {
        let (mut list, mut ranks, mut sections) = (Vec::new(), 0, 0);
        for dim in 0..coarray.sizes.len() {
            let names = self.section.clone();
            list.push(match (subs.get(dim), names) {
                (Some(Sub::Section(span, first, _, step)), Some(names)) => {
                    let Some(name) = names.get(sections) else {
                        return Err(Problem::new(span.start, "this has more sections than the left side"));
                    };
                    sections += 1;
                    let step = step.as_ref().map_or_else(|| Ok("1".to_owned()), |step| self.value(step))?;
                    // Downwards it begins at the end.
                    let last = || format!("{} - 1", long(&coarray.sizes[dim]));
                    let first = match (first, super::direction(&step)) {
                        (Some(first), _) => self.value(first)?,
                        (None, super::Direction::Up) => "0".to_owned(),
                        (None, super::Direction::Down) => last(),
                        (None, super::Direction::Either) => {
                            format!("{} < 0 ? {} : 0", grouped(&step), last())
                        }
                    };
                    format!("KXMP_INDEX({} + {name} * {})", long(&first), grouped(&step))
                }
                (Some(sub), _) => self.part(sub, &mut ranks)?,
                (None, _) => {
                    ranks += 1;
                    "KXMP_SECTION(KXMP_REST, KXMP_REST, 1)".into()
                }
            });
        }
        if list.is_empty() {
            list.push("KXMP_INDEX(0)".into());
        }
        Ok((format!("(const kxmp_part[]){{{}}}", list.join(", ")), ranks))
    }

    /// An element of another image as a value.
    pub(super) fn fetched(&mut self, expr: &Expr) -> Result<String> {
        let remote = self.remote(expr)?;
        if remote.ranks != 0 {
            return Err(Problem::new(
                expr.span.start,
                "a section of a coarray can stand in an assignment by itself: copy it to an array first",
            ));
        }
        Ok(self.fetch_text(expr.span.start, &remote))
    }

    fn fetch_text(&self, at: usize, remote: &Remote) -> String {
        format!(
            "(*(const {} *)kxmp_coarray_fetch({}, {})){}",
            remote.coarray.element,
            self.at(at),
            remote.arguments(),
            remote.suffix
        )
    }

    fn put_text(&self, at: usize, remote: &Remote, variable: &str) -> String {
        format!(
            "{}&(kxmp_side){{0, &{variable}, sizeof {variable}, KXMP_TYPE_OF({variable}), 0, 0, {{{{0}}}}}});",
            remote.put(&self.at(at))
        )
    }

    /// `x:[1] = v` and `x:[1] += v`, whose value is that of the element afterwards.
    pub(super) fn put_expression(
        &mut self,
        expr: &Expr,
        sign: Span,
        left: &Expr,
        right: &Expr,
    ) -> Result<String> {
        let remote = self.target(left)?;
        if remote.ranks != 0 {
            return Err(Problem::new(
                expr.span.start,
                "a section of a coarray can only be assigned to in a statement of its own",
            ));
        }
        let value = self.value(right)?;
        let text = self.update(expr.span.start, &remote, self.slice(sign), &value);
        Ok(self.in_place(expr.span, text))
    }

    fn update(&mut self, at: usize, remote: &Remote, sign: &str, value: &str) -> String {
        let name = format!("kx_v{}", self.fresh());
        // What else is in the element is left alone: others may write it meanwhile.
        let kind = match remote.suffix.is_empty() {
            true => remote.coarray.element.clone(),
            false => format!("__typeof__({})", remote.object()),
        };
        let put = self.put_text(at, remote, &name);
        if sign == "=" {
            return format!("({{ {kind} {name} = {value}; {put} {name}; }})");
        }
        let fetch = self.fetch_text(at, remote);
        format!("({{ {kind} {name} = {fetch}; {name} {sign} {}; {put} {name}; }})", grouped(value))
    }

    /// `x:[1]++`
    pub(super) fn step_remote(&mut self, expr: &Expr, inner: &Expr, sign: Span) -> Result<String> {
        let remote = self.target(inner)?;
        let sign = if self.slice(sign) == "++" { "+=" } else { "-=" };
        let updated = self.update(expr.span.start, &remote, sign, "1");
        Ok(match &expr.kind {
            ExprKind::Postfix(..) if sign == "+=" => format!("({updated} - 1)"),
            ExprKind::Postfix(..) => format!("({updated} + 1)"),
            _ => updated,
        })
    }

    /// Assignments of sections, and of whole arrays, with an image on a side. None: element by element.
    pub(super) fn coarray_assignment(
        &mut self,
        at: usize,
        sign: Span,
        left: &Expr,
        right: &Expr,
    ) -> Result<Option<String>> {
        let is_plain = self.slice(sign) == "=";
        let (to_remote, from_remote) =
            (self.is_remote(left), matches!(bare(right).kind, ExprKind::Image(..)));
        let place = self.at(at);
        if to_remote {
            let to = self.target(left)?;
            if to.ranks == 0 || !is_plain {
                return Err(Problem::new(at, "a section of a coarray can only be assigned with `=`"));
            }
            if from_remote && to.suffix.is_empty() && !has_section_of_member(right) {
                let from = self.remote(bare(right))?;
                self.same_ranks(right, to.ranks, from.ranks)?;
                if from.suffix.is_empty() && from.ranks != 0 {
                    return Ok(Some(format!(
                        "kxmp_coarray_copy({place}, {}, {});",
                        to.arguments(),
                        from.arguments()
                    )));
                }
            }
            return self.put_section(at, &to, left, right).map(Some);
        }
        if !from_remote || !is_plain || has_section_of_member(right) {
            return Ok(None);
        }
        let from = self.remote(bare(right))?;
        if !from.suffix.is_empty() || from.ranks == 0 {
            return Ok(None);
        }
        let to = self.side(left)?;
        if to.is_distributed {
            return Err(Problem::new(
                left.span.start,
                "a coarray section goes to memory of this node, not to a distributed array",
            ));
        }
        self.same_ranks(right, to.ranks, from.ranks)?;
        Ok(Some(format!("kxmp_coarray_get({place}, {}, &{});", from.arguments(), to.text)))
    }

    fn same_ranks(&self, right: &Expr, left_ranks: usize, right_ranks: usize) -> Result<()> {
        if left_ranks != right_ranks && right_ranks != 0 {
            return Err(Problem::new(
                right.span.start,
                format!("the left side has {left_ranks} dimensions with a range, the right side {right_ranks}: these must be as many"),
            ));
        }
        Ok(())
    }

    fn put_section(&mut self, at: usize, to: &Remote, left: &Expr, right: &Expr) -> Result<String> {
        let place = self.at(at);
        let inner = bare(right);
        let simple = match &inner.kind {
            ExprKind::Name | ExprKind::Index(..) | ExprKind::Member(..) => {
                self.chain(inner).is_none() && !self.is_remote(inner)
            }
            _ => false,
        };
        let own =
            self.chain(inner).map(|chain| (chain.array.name.clone(), chain.steps.len() < chain.array.dims()));
        if let Some((name, true)) = &own {
            return Err(Problem::new(
                inner.span.start,
                format!("`{name}` is distributed: a coarray takes elements of it, or what a gmove has put into an array of this node"),
            ));
        }
        let kind = match to.suffix.is_empty() {
            true => self.element_type(left)?,
            false => to.object(),
        };
        if simple || !super::statements::has_section(right) {
            let from = match own.is_some() {
                true => self.value_side(right, &kind)?,
                false => self.side_or_value(right, Ok(kind))?,
            };
            self.same_ranks(right, to.ranks, from.ranks)?;
            return Ok(format!("{{ {}{}&{}); }}", from.before, to.put(&place), from.text));
        }
        // Something is computed: into an array of its own, and from there.
        let ranks = sections_in_chain(left);
        if ranks != to.ranks {
            return Err(Problem::new(
                left.span.start,
                "name the sections of the left side: `x[0:n]:[image]`",
            ));
        }
        let id = self.fresh();
        let temporary = format!("kx_t{id}");
        let lengths = self.section_lengths(left)?;
        let names: Vec<String> = (0..ranks).map(|at| format!("kx_i{id}_{at}")).collect();
        let before = self.section.replace(names.clone());
        let value = self.value(right);
        self.section = before;
        let value = value?;
        let mut out = format!("{{ long {}; ", names.join(", "));
        let (mut heads, mut extents, mut index) = (String::new(), Vec::new(), String::from("0"));
        for (at, (name, length)) in names.iter().zip(&lengths).enumerate() {
            out.push_str(&format!("const long kx_m{id}_{at} = {length}; "));
            heads.push_str(&format!("for ({name} = 0; {name} < kx_m{id}_{at}; {name}++) "));
            extents.push(format!("kx_m{id}_{at}"));
            index = if at == 0 { name.clone() } else { format!("({index}) * kx_m{id}_{at} + {name}") };
        }
        let all = vec!["KXMP_SECTION(KXMP_REST, KXMP_REST, 1)"; ranks].join(", ");
        out.push_str(&format!(
            "__typeof__({kind}) *{temporary} = __builtin_malloc({} * sizeof *{temporary} + 1); {heads}{temporary}[{index}] = {value}; \
             {}&(kxmp_side){{0, {temporary}, sizeof *{temporary}, KXMP_TYPE_OF(*{temporary}), {ranks}, (const long[]){{{}}}, {{{all}}}}}); \
             __builtin_free({temporary}); }}",
            extents.join(" * "),
            to.put(&place),
            extents.join(", ")
        ));
        Ok(out)
    }

    /// The coarray that an argument names, with or without an image.
    fn named(&mut self, expr: &Expr) -> Result<Option<String>> {
        let expr = bare(expr);
        if self.is_remote(expr) {
            let remote = self.remote(expr)?;
            return match remote.suffix.is_empty() {
                true => Ok(Some(remote.arguments())),
                false => Err(Problem::new(
                    expr.span.start,
                    "this needs an element of a coarray, not a member of one: declare a coarray for it",
                )),
            };
        }
        let (base, subs) = super::sides::split(expr);
        let Some(coarray) = self.scopes.var(self.slice(bare(base).span)).and_then(|var| var.coarray()) else {
            return Ok(None);
        };
        let (part, _) = self.parts(&coarray, &subs)?;
        Ok(Some(format!("{}, 0, {part}", coarray.handle())))
    }

    pub(super) fn lock(
        &mut self,
        place: &str,
        unlock: bool,
        object: &Expr,
        acquired: Option<&Expr>,
        status: Option<&Expr>,
    ) -> Result<String> {
        let Some(object) = self.named(object)? else {
            return Err(Problem::new(
                object.span.start,
                "a lock is a coarray of the type xmp_lock_t: `lock(x:[image])`",
            ));
        };
        let id = self.fresh();
        let (mut before, mut after) = (String::new(), String::new());
        // The variable may be of any type: what the run time writes is an int.
        let mut told = |variable: Option<&Expr>, what: &str| {
            let Some(variable) = variable else { return Ok("0".to_owned()) };
            let name = format!("kx_{what}{id}");
            before.push_str(&format!("int {name} = 0; "));
            after.push_str(&format!(" {} = {name};", grouped(&self.value(variable)?)));
            Ok(format!("&{name}"))
        };
        let (acquired, status) = (told(acquired, "taken")?, told(status, "stat")?);
        let call = match unlock {
            true => format!("kxmp_unlock({place}, {object}, {status});"),
            false => format!("kxmp_lock({place}, {object}, {acquired}, {status});"),
        };
        Ok(format!("{{ {before}{call}{after} }}"))
    }

    /// `xmp_atomic_define(x:[1], v)`, `xmp_atomic_ref(&v, x:[1])`
    pub(super) fn atomic(&mut self, expr: &Expr, name: &str, arguments: &[Expr]) -> Result<String> {
        let [first, second] = arguments else {
            return Err(Problem::new(expr.span.start, format!("{name} takes a coarray and a value")));
        };
        let place = self.at(expr.span.start);
        let missing = || Problem::new(expr.span.start, format!("{name} needs a coarray: `x:[image]`"));
        if name == "xmp_atomic_define" {
            let target = self.named(first)?.ok_or_else(missing)?;
            let value = self.value(second)?;
            return Ok(format!("kxmp_atomic_define({place}, {target}, {})", long(&value)));
        }
        let is_coarray =
            |translator: &mut Self, expr: &Expr| translator.named(expr).map(|found| found.is_some());
        let (value, target) = match is_coarray(self, second)? {
            true => (first, second),
            false => (second, first),
        };
        let target = self.named(target)?.ok_or_else(missing)?;
        let value = grouped(&self.value(value)?);
        Ok(format!("kxmp_atomic_ref({place}, {value}, sizeof *{value}, {target})"))
    }
}

/// `s.v[0:n]:[image]`: such elements do not lie one behind the other as those of the coarray do.
fn has_section_of_member(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Index(base, sub) => {
            (matches!(**sub, Sub::Section(..)) && last_member(base).is_some()) || has_section_of_member(base)
        }
        ExprKind::Member(base, _) | ExprKind::Paren(base) | ExprKind::Image(base, _) => {
            has_section_of_member(base)
        }
        _ => false,
    }
}

/// The outermost member access below subscripts.
fn last_member(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::Member(..) => Some(expr),
        ExprKind::Index(base, _) | ExprKind::Paren(base) => last_member(base),
        _ => None,
    }
}
