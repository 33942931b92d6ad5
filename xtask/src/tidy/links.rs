//! Links of the documents to files of the repository: each must lead to a file that is there.

use pulldown_cmark::{Event, Parser, Tag};

use super::tree::Tree;
use super::Violation;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, link) in links(text) {
            let Some(target) = file_of(&link) else { continue };
            let remedy = match resolve(path, target) {
                Some(place) if tree.contains(&place) => continue,
                Some(_) => "correct it, or add the file",
                None => "link to a file inside the repository",
            };
            found.push(Violation::new(path, line, format!("the link to {link} leads nowhere"), remedy));
        }
    }
    found
}

/// Every link and image of a page with its line, those in HTML included.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (event, range) in Parser::new(text).into_offset_iter() {
        let line = text[..range.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push((line, dest_url.into_string()));
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let values = ["src=\"", "href=\""].into_iter().flat_map(|name| html.split(name).skip(1));
                links.extend(values.filter_map(|rest| Some((line, rest.split_once('"')?.0.to_owned()))));
            }
            _ => {}
        }
    }
    links
}

/// The path in a link, unless it leads to another site or stays on the page.
fn file_of(link: &str) -> Option<&str> {
    let path = link.split(['#', '?']).next().unwrap_or_default();
    let elsewhere = path.contains("://") || path.starts_with("//") || path.starts_with("mailto:");
    (!path.is_empty() && !elsewhere).then_some(path)
}

/// The path from the root of the repository, or `None` if it leaves the repository.
fn resolve(page: &str, link: &str) -> Option<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (start, rest) = match link.strip_prefix('/') {
        Some(rest) => ("", rest),
        None => (folder, link),
    };
    let mut parts: Vec<&str> = start.split('/').filter(|part| !part.is_empty()).collect();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("README.md", ""), ("a.png", "\0")]);
        check(&tree).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn links_to_what_is_there_pass() {
        let text = "[b](b.md#top) [r](../README.md) [r](/README.md) [d](../docs/) [x]\n\n![p](../a.png) [top](#top)\n\
                    <img src=\"../a.png\">\n\n[x]: ./b.md \"title\"\n";
        assert_eq!(found(text), [0_usize; 0]);
    }

    #[test]
    fn links_elsewhere_and_in_code_are_left_alone() {
        let text = "[a](https://a.org/b) <https://a.org> [m](mailto:a@b.c)\n\n`[a](no.md)`\n\n```\n[a](no.md)\n```\n";
        assert_eq!(found(text), [0_usize; 0]);
    }

    #[test]
    fn links_to_nowhere_are_found() {
        assert_eq!(found("a\n[c](c.md)\n"), [2]);
        assert_eq!(found("![c](c.png)\n\n<a href=\"no.md\">no</a>\n"), [1, 3]);
        assert_eq!(found("[x][y]\n\n[y]: no.md\n"), [1]);
    }

    #[test]
    fn links_that_leave_the_repository_are_found() {
        assert_eq!(found("[s](../../shared/design.md)\n"), [1]);
    }
}
