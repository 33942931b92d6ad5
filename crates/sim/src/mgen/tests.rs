//! Programs that are right, programs that are wrong, and programs made at random.

use super::*;
use proptest::prelude::*;

fn source(text: &str) -> Source {
    Source::new("t.mgen", text)
}

/// The text of the first mistake, before anything runs.
fn wrong(text: &str) -> Mistake {
    match Program::new(&source(text), 8, &[], 0) {
        Ok(_) => panic!("this was accepted:\n{text}"),
        Err(mistake) => mistake,
    }
}

#[test]
fn mistakes_have_a_place_and_say_what_was_expected() {
    for (text, place, part) in [
        ("send 8 too 1", (1, 8), "`send` takes no `too`"),
        ("send 8 too 1", (1, 8), "maybe you meant `to`"),
        ("send 8", (1, 7), "`to` and a rank"),
        ("send to 1", (1, 6), "a number of bytes"),
        ("compute", (1, 8), "a time such as 10 us"),
        ("sned 8 to 1", (1, 1), "maybe you meant `send`"),
        ("let a = 1\nlet b = aa + 1", (2, 9), "maybe you meant `a`"),
        ("allreduce 8 by rign", (1, 16), "maybe you meant `ring`"),
        ("allreduce 8 by", (1, 15), "an algorithm of `allreduce`"),
        ("for i in 0..4 {\n    send 8 to i\n", (3, 1), "`}` that ends this block"),
        ("}", (1, 1), "no block is open"),
        ("let h = send 8 to 1", (1, 9), "gives no handle; these do: isend"),
        ("let send = 3", (1, 5), "is a word of the language"),
        ("let a = 1\nlet a = 2", (2, 5), "exists already"),
        ("x = 3", (1, 1), "no variable `x`"),
        ("param k = rank", (1, 11), "cannot depend on `rank`"),
        ("param k = 1 / 0", (1, 11), "divides by zero"),
        ("if 1 { param k = 2 }", (1, 14), "at the top"),
        ("param k = 1\nk = 2", (2, 1), "is a parameter"),
        ("break", (1, 1), "stands in no loop"),
        ("foo(1)", (1, 1), "no procedure `foo`"),
        ("proc foo(a) {}\nfoo(1, 2)", (2, 1), "takes 1 arguments, here are 2"),
        ("let a = mni(1, 2)", (1, 9), "maybe you meant `min`"),
        ("let a = min()", (1, 9), "takes 1 arguments"),
        ("let a = 1 < 2 < 3", (1, 15), "comparisons do not chain"),
        ("let a = 1.5", (1, 9), "only times have fractions"),
        ("let a = 99999999999999999999", (1, 9), "too large"),
        ("let a = (1 + \n # no\n 2)", (2, 2), "expected a value, found a comment"),
        ("let a = (1 + 2", (1, 15), "`)` that closes"),
        ("if 1 {}\n# no\nelse {}", (3, 1), "`else` must follow"),
        ("send 8 to 1 tag 2 tag 3", (1, 19), "here twice"),
        ("proc a() {}\nproc a() {}", (2, 6), "two procedures `a`"),
        ("let min = 1", (1, 5), "a function of the language"),
        ("assert 1, 2", (1, 11), "in double quotes"),
    ] {
        let mistake = wrong(text);
        assert!(mistake.to_string().contains(part), "{text}:\n{mistake}");
        assert_eq!((mistake.line, mistake.column), place, "{text}:\n{mistake}");
    }
}

#[test]
fn too_deep_a_program_is_refused_and_does_not_overflow() {
    for text in ["(".repeat(100_000), "if 1 {".repeat(100_000), "let a = ".to_string() + &"-".repeat(100_000)]
    {
        assert!(wrong(&text).message.contains("expected") || wrong(&text).message.contains("nested"));
    }
}

#[test]
fn parameters_come_from_the_command_line() {
    let text = "param k = 2\nparam size = k * 64K\nparam work = 10 us\n";
    let given = [parameter("k=8").unwrap(), parameter("work=3ns").unwrap()];
    let program = Program::new(&source(text), 4, &given, 0).unwrap();
    let values: Vec<Value> = program.parameters().iter().map(|(_, value)| *value).collect();
    assert_eq!(values, [Value::Number(8), Value::Number(8 << 16), Value::Time(3_000)]);
    let unknown = Program::new(&source(text), 4, &[parameter("siez=1").unwrap()], 0).err().unwrap();
    assert!(unknown.to_string().contains("maybe you meant `size`"), "{unknown}");
    let kind = Program::new(&source(text), 4, &[parameter("k=1us").unwrap()], 0).err().unwrap();
    assert!(kind.message.contains("`k` is a number, but a time was given"), "{kind}");
    assert!(parameter("k").is_err() && parameter("k=x").is_err() && parameter("=1").is_err());
}

#[test]
fn every_collective_is_in_the_library() {
    for verb in verbs::VERBS.iter().filter(|verb| verb.is_collective()) {
        for algorithm in verb.algorithms {
            let root = verb.must.first().map_or(String::new(), |key| format!("{key} 0"));
            let bytes = if verb.amount == verbs::Amount::Bytes { "64" } else { "" };
            let text = format!("{} {bytes} {root} by {algorithm}", verb.name);
            assert!(Program::new(&source(&text), 8, &[], 0).is_ok(), "{text}");
        }
    }
}

#[test]
fn the_library_is_formatted() {
    assert_eq!(format(&source(LIBRARY)).unwrap(), LIBRARY);
}

#[test]
fn comments_blank_lines_and_parentheses_are_kept() {
    let text = "# head\n\n\n\nparam k=2# two\nif rank==0{send 8 to 1;recv 8 from any}else if k>1{}\nelse{ # here\nwait  all\n}\n";
    let expected = "# head\n\nparam k = 2  # two\nif rank == 0 {\n    send 8 to 1\n    recv 8 from any\n} else if k > 1 {} else {\n    \
                    # here\n    wait all\n}\n";
    assert_eq!(format(&source(text)).unwrap(), expected);
    assert_eq!(format(&source(expected)).unwrap(), expected);
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[0-9]{1,4}".prop_map(String::from),
        Just("64K".to_string()),
        Just("rank".to_string()),
        Just("ranks".to_string()),
        Just("k".to_string()),
        Just("1.5us".to_string()),
        Just("10 ns".to_string()),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operator =
            prop::sample::select(vec!["+", "-", "*", "/", "%", "^", "&", "|", "<<", ">>", "and", "or"]);
        prop_oneof![
            (inner.clone(), operator, inner.clone(), " {0,2}").prop_map(|(a, op, b, s)| {
                if op.starts_with(char::is_alphabetic) {
                    format!("{a} {op} {b}")
                } else {
                    format!("{a}{s}{op}{s}{b}")
                }
            }),
            inner.clone().prop_map(|a| format!("( {a} )")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("min({a},\n {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}<={b})")),
            inner.clone().prop_map(|a| format!("- {a}")),
            inner.clone().prop_map(|a| format!("(not {a})")),
            inner.prop_map(|a| format!("({a}) us")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    let expr = expression;
    let simple = prop_oneof![
        (expr(), expr()).prop_map(|(a, b)| format!("send {a} to {b}")),
        (expr(), expr(), expr()).prop_map(|(a, b, c)| format!("put  {a} to {b} flag {c} order continue")),
        (expr(), expr()).prop_map(|(a, b)| format!("let h=isend {a} to {b} order all\nwait h")),
        expr().prop_map(|a| format!("compute {a}")),
        expr().prop_map(|a| format!("allreduce {a} by recursive-doubling")),
        expr().prop_map(|a| format!("assert {a}, \"said\"")),
        Just("barrier # all".to_string()),
        Just("# a remark".to_string()),
        Just("\n\n".to_string()),
        Just("wait all ; step".to_string()),
    ];
    simple.prop_recursive(3, 16, 4, move |inner| {
        let body = prop::collection::vec(inner, 0..4).prop_map(|lines| lines.join("\n"));
        prop_oneof![
            (expr(), expr(), body.clone())
                .prop_map(|(a, b, body)| format!("for i in {a}..{b} {{\n{body}\n}}")),
            (expr(), body.clone(), body.clone())
                .prop_map(|(a, x, y)| format!("if {a} {{\n{x}\n}}\nelse {{\n{y}\n}}")),
            (expr(), body.clone()).prop_map(|(a, body)| format!("while {a} {{{body}\n}}")),
            (expr(), body).prop_map(|(a, body)| format!("repeat {a} {{\n\n{body}\n\n}} # end")),
        ]
    })
}

/// The tree without places.
fn shape(text: &str) -> String {
    let tree = format!("{:?}", parse(&source(text)).unwrap());
    let mut kept = String::new();
    let mut rest = tree.as_str();
    while let Some(at) = rest.find("Span {") {
        kept.push_str(&rest[..at]);
        let end = rest[at..].find('}').map_or(rest.len(), |end| at + end + 1);
        rest = &rest[end..];
    }
    kept + rest
}

proptest! {
    #[test]
    fn formatting_keeps_the_program_and_is_idempotent(lines in prop::collection::vec(statement(), 1..8)) {
        let text = lines.join("\n");
        let once = format(&source(&text)).map_err(|mistake| TestCaseError::fail(mistake.to_string()))?;
        prop_assert_eq!(format(&source(&once)).unwrap(), once.clone());
        prop_assert_eq!(shape(&once).replace("blank_before: true", "blank_before: false"),
                        shape(&text).replace("blank_before: true", "blank_before: false"));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n]{0,200}") {
        let _ = Program::new(&source(&text), 8, &[], 0);
    }

    #[test]
    fn any_words_are_read_or_refused(words in prop::collection::vec(prop::sample::select(vec![
        "send", "recv", "put", "to", "from", "any", "all", "8", "rank", "{", "}", "(", ")", "if", "else", "for", "i", "in",
        "..", "let", "=", "proc", "func", "f", ",", "+", "us", "by", "ring", "wait", "order", "\n", "#", "-", "step", "param",
    ]), 0..40)) {
        let _ = Program::new(&source(&words.join(" ")), 8, &[], 0);
    }
}
