//! Schedules in GOAL, the text format of LogGOPSim: sends, receives and computing of each rank, and what requires what.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 100
//! l2: send 10b to 1 tag 5
//! l2 requires l1
//! }
//! rank 1 {
//! l1: recv 10b from 0 tag 5
//! }
//! ```
//!
//! A task starts as soon as what it requires is complete (`requires`) or has started (`irequires`). `calc` counts
//! nanoseconds. `cpu` and `nic` are read, but a rank here has one processor, which its computing shares, and the
//! network decides on interfaces. Circular requirements, unknown labels, ranks that do not exist, and receives
//! without a send (or the reverse) are refused with their place.

use crate::program::{Gap, Handle, Op, Order, Script, Source as From, View, Wait, Workload};
use crate::source::{Mistake, Source, Span};
use crate::words::{words, Words};
use crate::Time;
use std::collections::{BinaryHeap, HashMap};

/// A schedule, ready to be simulated.
#[derive(Debug)]
pub struct Schedule {
    name: String,
    ranks: Vec<RankTasks>,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Send { to: u32, bytes: u64, tag: u64 },
    Receive { from: Option<u32>, bytes: u64, tag: Option<u64> },
    Compute { ns: u64 },
}

#[derive(Debug)]
struct Task {
    work: Work,
    at: Span,
    /// Requirements that must be met before it starts.
    requires: u32,
    /// Tasks that wait for its completion, and for its start.
    completes: Vec<u32>,
    starts: Vec<u32>,
}

#[derive(Debug, Default)]
struct RankTasks {
    tasks: Vec<Task>,
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// ```
    /// use kumiki_sim::{goal::Schedule, source::Source, Workload};
    /// let text = "num_ranks 2\nrank 0 {\nl1: send 8b to 1\n}\nrank 1 {\nl1: recv 8b from 0\n}\n";
    /// assert_eq!(Schedule::parse(&Source::new("pair.goal", text)).unwrap().ranks(), 2);
    /// ```
    pub fn parse(source: &Source) -> Result<Schedule, Mistake> {
        let ranks =
            Reader { source, ranks: Vec::new(), inside: None, labels: HashMap::new(), seen: Vec::new() }
                .read()?;
        let schedule = Schedule { name: source.name.to_string(), ranks };
        schedule.refuse_circles(source)?;
        schedule.refuse_unmatched(source)?;
        Ok(schedule)
    }

    /// A task that can never start, because it requires itself.
    fn refuse_circles(&self, source: &Source) -> Result<(), Mistake> {
        for (rank, RankTasks { tasks }) in self.ranks.iter().enumerate() {
            let mut left: Vec<u32> = tasks.iter().map(|task| task.requires).collect();
            let mut ready: Vec<usize> = (0..tasks.len()).filter(|task| left[*task] == 0).collect();
            while let Some(task) = ready.pop() {
                for next in tasks[task].completes.iter().chain(&tasks[task].starts) {
                    left[*next as usize] -= 1;
                    if left[*next as usize] == 0 {
                        ready.push(*next as usize);
                    }
                }
            }
            if let Some(stuck) = left.iter().position(|left| *left > 0) {
                let message = format!("this can never start: the requirements of rank {rank} go in a circle");
                return Err(source.mistake(tasks[stuck].at, message));
            }
        }
        Ok(())
    }

    /// Sends and receives that cannot meet. Where a receive takes anything, nothing can be said.
    fn refuse_unmatched(&self, source: &Source) -> Result<(), Mistake> {
        let mut balance: HashMap<(u32, u32, u64), (i64, Span)> = HashMap::new();
        let mut wild = vec![false; self.ranks.len()];
        for (rank, task) in self.each_task() {
            match task.work {
                Work::Send { to, tag, .. } => balance.entry((rank, to, tag)).or_insert((0, task.at)).0 += 1,
                Work::Receive { from: Some(from), tag: Some(tag), .. } => {
                    let entry = balance.entry((from, rank, tag)).or_insert((0, task.at));
                    entry.0 -= 1;
                    if entry.0 < 0 {
                        entry.1 = task.at;
                    }
                }
                Work::Receive { .. } => wild[rank as usize] = true,
                Work::Compute { .. } => {}
            }
        }
        let wrong = balance.iter().filter(|((_, to, _), (count, _))| *count != 0 && !wild[*to as usize]);
        let Some(((from, to, tag), (count, at))) = wrong.min_by_key(|(_, (_, at))| at.start) else {
            return Ok(());
        };
        let message = match *count < 0 {
            true => format!("{} receives of rank {to} from {from} with tag {tag} have no send", -count),
            false => format!("{count} sends from rank {from} to {to} with tag {tag} have no receive"),
        };
        Err(source.mistake(*at, message))
    }

    fn each_task(&self) -> impl Iterator<Item = (u32, &Task)> {
        self.ranks
            .iter()
            .enumerate()
            .flat_map(|(rank, tasks)| tasks.tasks.iter().map(move |task| (rank as u32, task)))
    }
}

struct Reader<'a> {
    source: &'a Source,
    ranks: Vec<RankTasks>,
    inside: Option<u32>,
    labels: HashMap<String, u32>,
    /// Ranks that have had their block.
    seen: Vec<bool>,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<Vec<RankTasks>, Mistake> {
        let source = self.source;
        let plain = without_comments(source)?;
        let mut start = 0;
        for line in plain.split_inclusive('\n') {
            self.line(&mut words(source, start, line, ":{};"))?;
            start += line.len();
        }
        let end = Span::new(source.text.len(), source.text.len());
        match (self.inside, self.ranks.is_empty()) {
            (Some(rank), _) => Err(source
                .mistake(end, format!("expected `}}` that ends rank {rank}, found the end of the file"))),
            (None, true) => {
                Err(source.mistake(end, "expected `num_ranks` and a number, found the end of the file"))
            }
            (None, false) => Ok(self.ranks),
        }
    }

    fn line(&mut self, words: &mut Words<'_>) -> Result<(), Mistake> {
        while let Some(word) = words.peek() {
            match (word.text, self.inside) {
                (";", _) => {
                    words.take();
                }
                ("num_ranks", None) => self.number_of_ranks(words)?,
                ("rank", None) => self.open(words)?,
                ("}", Some(_)) => {
                    words.take();
                    self.inside = None;
                    self.labels.clear();
                }
                (_, Some(rank)) => self.item(words, rank)?,
                (_, None) => return words.wrong("`num_ranks` or `rank`"),
            }
        }
        Ok(())
    }

    fn number_of_ranks(&mut self, words: &mut Words<'_>) -> Result<(), Mistake> {
        let at = words.place();
        words.expect("num_ranks")?;
        let (count, _): (u32, _) = words.number("the number of ranks")?;
        if !self.ranks.is_empty() || count == 0 || count > 1 << 24 {
            return Err(self.source.mistake(at, "expected `num_ranks` once, from 1 to 16777216"));
        }
        self.ranks.resize_with(count as usize, RankTasks::default);
        self.seen = vec![false; count as usize];
        Ok(())
    }

    fn open(&mut self, words: &mut Words<'_>) -> Result<(), Mistake> {
        words.expect("rank")?;
        if self.ranks.is_empty() {
            return words.wrong("`num_ranks` before the first rank");
        }
        let rank = self.rank(words)?;
        if std::mem::replace(&mut self.seen[rank as usize], true) {
            return words.wrong(&format!("rank {rank} once; it was there before"));
        }
        words.expect("{")?;
        self.inside = Some(rank);
        Ok(())
    }

    fn rank(&self, words: &mut Words<'_>) -> Result<u32, Mistake> {
        let (rank, at): (u32, _) = words.number("a rank")?;
        if rank as usize >= self.ranks.len() {
            let message = format!("there is no rank {rank}: num_ranks is {}", self.ranks.len());
            return Err(self.source.mistake(at, message));
        }
        Ok(rank)
    }

    /// `[label:] work` or `label requires label`.
    fn item(&mut self, words: &mut Words<'_>, rank: u32) -> Result<(), Mistake> {
        let Some(first) = words.peek() else { return Ok(()) };
        if !matches!(first.text, "send" | "recv" | "calc") {
            words.take();
            if !words.takes(":") {
                return self.requirement(words, rank, first.text, first.at);
            }
            let number = self.ranks[rank as usize].tasks.len() as u32;
            if self.labels.insert(first.text.to_string(), number).is_some() {
                return Err(self
                    .source
                    .mistake(first.at, format!("there are two labels `{}` in rank {rank}", first.text)));
            }
        }
        let at = words.place();
        let work = self.work(words)?;
        let task = Task { work, at, requires: 0, completes: Vec::new(), starts: Vec::new() };
        self.ranks[rank as usize].tasks.push(task);
        Ok(())
    }

    fn work(&self, words: &mut Words<'_>) -> Result<Work, Mistake> {
        let verb = words.take().map(|word| word.text);
        let work = match verb {
            Some("calc") => {
                let (ns, _) = words.number("nanoseconds of computing")?;
                Work::Compute { ns }
            }
            Some("send") => {
                let bytes = self.bytes(words)?;
                words.expect("to")?;
                let to = self.rank(words)?;
                Work::Send { to, bytes, tag: self.tag(words)?.unwrap_or(0) }
            }
            Some("recv") => {
                let bytes = self.bytes(words)?;
                words.expect("from")?;
                let from = if words.takes("-1") { None } else { Some(self.rank(words)?) };
                let tag = if self.any_tag(words) { None } else { Some(self.tag(words)?.unwrap_or(0)) };
                Work::Receive { from, bytes, tag }
            }
            _ => return words.wrong("`send`, `recv` or `calc` before this"),
        };
        for option in ["cpu", "nic"] {
            if words.takes(option) {
                let _: (u32, Span) = words.number(&format!("the number of a {option}"))?;
            }
        }
        Ok(work)
    }

    /// `10b`.
    fn bytes(&self, words: &mut Words<'_>) -> Result<u64, Mistake> {
        let number =
            words.peek().and_then(|word| word.text.strip_suffix('b').unwrap_or(word.text).parse().ok());
        let has_unit = words.peek().is_some_and(|word| word.text.ends_with('b'));
        match number {
            Some(number) => {
                words.take();
                if !has_unit {
                    words.expect("b")?;
                }
                Ok(number)
            }
            None => words.wrong("a number of bytes such as `10b`"),
        }
    }

    fn any_tag(&self, words: &mut Words<'_>) -> bool {
        words.takes_both("tag", "-1")
    }

    fn tag(&self, words: &mut Words<'_>) -> Result<Option<u64>, Mistake> {
        if !words.takes("tag") {
            return Ok(None);
        }
        words.number("a tag").map(|(tag, _)| Some(tag))
    }

    fn requirement(
        &mut self,
        words: &mut Words<'_>,
        rank: u32,
        label: &str,
        at: Span,
    ) -> Result<(), Mistake> {
        let on_start = match words.peek().map(|word| word.text) {
            Some("requires") => false,
            Some("irequires") => true,
            _ => return words.wrong("`:`, `requires` or `irequires` behind a label"),
        };
        words.take();
        let Some(other) = words.take() else { return words.wrong("a label") };
        let task = self.label(label, at, rank)?;
        let needed = self.label(other.text, other.at, rank)?;
        let tasks = &mut self.ranks[rank as usize].tasks;
        tasks[task as usize].requires += 1;
        let list =
            if on_start { &mut tasks[needed as usize].starts } else { &mut tasks[needed as usize].completes };
        list.push(task);
        Ok(())
    }

    fn label(&self, label: &str, at: Span, rank: u32) -> Result<u32, Mistake> {
        self.labels.get(label).copied().ok_or_else(|| {
            let mistake =
                self.source.mistake(at, format!("there is no label `{label}` in rank {rank} above here"));
            mistake.with_nearest(label, self.labels.keys().map(|known| &**known))
        })
    }
}

/// The text with comments made blank, so that every place stays where it is.
fn without_comments(source: &Source) -> Result<String, Mistake> {
    let mut text = String::with_capacity(source.text.len());
    let mut rest = &*source.text;
    while let Some(at) = rest.find('/') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            match rest.find("*/") {
                Some(end) => end + 2,
                None => {
                    let at = source.text.len() - rest.len();
                    return Err(source.mistake(Span::new(at, at + 2), "this comment has no end"));
                }
            }
        } else {
            text.push('/');
            rest = &rest[1..];
            continue;
        };
        text.extend(rest[..length].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        rest = &rest[length..];
    }
    text.push_str(rest);
    Ok(text)
}

impl Workload for Schedule {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    fn start(&self, rank: u32) -> Box<dyn Script + '_> {
        let tasks = &self.ranks[rank as usize].tasks;
        let left: Vec<u32> = tasks.iter().map(|task| task.requires).collect();
        let mut runner =
            Runner { tasks, left, ready: BinaryHeap::new(), flying: Vec::new(), computed: None, issued: 0 };
        for task in 0..tasks.len() as u32 {
            runner.make_ready(task);
        }
        Box::new(runner)
    }
}

/// One rank that carries out its tasks.
struct Runner<'a> {
    tasks: &'a [Task],
    left: Vec<u32>,
    /// Communication first, then computing; each in the order of the file.
    ready: BinaryHeap<std::cmp::Reverse<(bool, u32)>>,
    flying: Vec<(Handle, u32)>,
    /// The computing that has just ended.
    computed: Option<u32>,
    issued: u64,
}

impl Runner<'_> {
    fn make_ready(&mut self, task: u32) {
        if self.left[task as usize] == 0 {
            let computes = matches!(self.tasks[task as usize].work, Work::Compute { .. });
            self.ready.push(std::cmp::Reverse((computes, task)));
        }
    }

    fn met(&mut self, of: &[u32]) {
        for task in of {
            self.left[*task as usize] -= 1;
            self.make_ready(*task);
        }
    }

    fn issue(&mut self, number: u32) -> Op {
        let task = &self.tasks[number as usize];
        self.met(&task.starts);
        let handle = Handle(self.issued);
        let op = match task.work {
            Work::Compute { ns } => {
                self.computed = Some(number);
                return Op::Compute(Time::from_ns(ns));
            }
            Work::Send { to, bytes, tag } => {
                Op::Send { to, bytes, tag, gap: Gap::Default, order: Order::None }
            }
            Work::Receive { from, bytes, tag } => {
                Op::Recv { from: from.map_or(From::Any, From::Rank), bytes, tag }
            }
        };
        self.issued += 1;
        self.flying.push((handle, number));
        op
    }
}

impl Script for Runner<'_> {
    fn next(&mut self, view: &View<'_>) -> Op {
        if let Some(number) = self.computed.take() {
            self.met(&self.tasks[number as usize].completes);
        }
        let mut at = 0;
        while at < self.flying.len() {
            if view.is_complete(self.flying[at].0) {
                let (_, number) = self.flying.swap_remove(at);
                self.met(&self.tasks[number as usize].completes);
            } else {
                at += 1;
            }
        }
        match self.ready.pop() {
            Some(std::cmp::Reverse((_, number))) => self.issue(number),
            None if self.flying.is_empty() => Op::End,
            None => Op::Wait(Wait::Outstanding(self.flying.len() as u32 - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Schedule, Mistake> {
        Schedule::parse(&Source::new("t.goal", text))
    }

    #[test]
    fn a_schedule_of_two_ranks_is_read() {
        let text = "num_ranks 2 // two\n/* first\n rank */ rank 0 {\nl1: calc 100 cpu 0\nl2: send 10b to 1 tag 5 cpu 0 nic 1\n\
                    l2 requires l1\n}\nrank 1 { l1: recv 10b from 0 tag 5; l2: calc 7; l2 irequires l1 }\n";
        let schedule = parse(text).unwrap();
        assert_eq!(schedule.ranks[0].tasks[1].work, Work::Send { to: 1, bytes: 10, tag: 5 });
        assert_eq!(
            (schedule.ranks[0].tasks[1].requires, &*schedule.ranks[1].tasks[0].starts),
            (1, &[1u32][..])
        );
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_place() {
        let head = "num_ranks 2\nrank 0 {\n";
        for (text, place, part) in [
            ("rank 0 {\n}\n", (1, 6), "num_ranks"),
            ("num_ranks 2\nrank 2 {\n}\n", (2, 6), "there is no rank 2"),
            (&format!("{head}l1: send 8b to 7\n}}\n"), (3, 16), "there is no rank 7"),
            (&format!("{head}l1: sned 8b to 1\n}}\n"), (3, 10), "`send`, `recv` or `calc`"),
            (&format!("{head}l1: calc 1\nl1 requires l9\n}}\n"), (4, 13), "no label `l9`"),
            (
                &format!("{head}l1: calc 1\nl2: calc 1\nl1 requires l2\nl2 requires l1\n}}\n"),
                (3, 5),
                "circle",
            ),
            (&format!("{head}l1: recv 8b from 1\n}}\n"), (3, 5), "have no send"),
            (&format!("{head}l1: send 8b to 1\n}}\n"), (3, 5), "have no receive"),
            (&format!("{head}l1: calc 1\n"), (4, 1), "ends rank 0"),
            (&format!("{head}l1: calc x\n}}\n"), (3, 10), "nanoseconds"),
            ("/* num_ranks 2\n", (1, 1), "no end"),
        ] {
            let mistake = parse(text).unwrap_err();
            assert!(mistake.message.contains(part), "{text}: {mistake}");
            assert_eq!((mistake.line, mistake.column), place, "{text}: {mistake}");
        }
    }
}
