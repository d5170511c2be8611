//! Comments and pages name the agent of a sentence; types have names of their own.

use std::collections::BTreeMap;

use testkit::{names_below, root};

const FOLDERS: [&str; 9] =
    ["benches", "bindings", "ctests", "docs", "examples", "include", "kernels", "src", "tests"];
const SOURCES: [&str; 7] = [".rs", ".md", ".c", ".h", ".hpp", ".cu", ".cuh"];
const HIDE_THE_AGENT: [&str; 6] = ["What", "Who", "Whom", "Whoever", "Whatever", "There"];

/// Returns the prose in a line: of pages all of it, else a comment. Empty for code.
fn prose<'a>(name: &str, line: &'a str) -> &'a str {
    let line = line.trim();
    let is_comment = |mark: &&&str| line.starts_with(**mark);
    let mark = ["///", "//!", "//"].iter().find(is_comment).map_or(0, |mark: &&str| mark.len());
    let text = if mark > 0 || name.ends_with(".md") { &line[mark..] } else { "" };
    text.trim_start_matches(['-', '*', '|', '>', ' '])
}

/// Returns the paragraphs of a file, without code that they show.
fn paragraphs(name: &str, text: &str) -> Vec<String> {
    let (mut all, mut shows_code) = (vec![String::new()], false);
    for line in text.lines() {
        let line = prose(name, line);
        shows_code ^= line.starts_with("```");
        match all.last_mut() {
            Some(last) if !line.is_empty() && !shows_code => *last += &format!("{line} "),
            _ => all.push(String::new()),
        }
    }
    all
}

#[test]
fn sentences_begin_with_their_agent() {
    let hides = |sentence: &&str| {
        let begins = |word: &&str| sentence.starts_with(&format!("{word} "));
        !sentence.contains('?') && HIDE_THE_AGENT.iter().any(begins)
    };
    for folder in FOLDERS.map(|folder| root().join(folder)) {
        for name in names_below(&folder) {
            if !SOURCES.iter().any(|end| name.ends_with(end)) {
                continue;
            }
            let path = folder.join(name);
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            for paragraph in paragraphs(&path.to_string_lossy(), &text) {
                let hiding = paragraph.split(". ").find(hides);
                assert_eq!(hiding, None, "{}: name the agent", path.display());
            }
        }
    }
}

/// Returns the name of the type that a line of code defines.
fn defined_type(line: &str) -> Option<&str> {
    let (indent, line) = (line.len() - line.trim_start().len(), line.trim_start());
    let line = match line.split_once(") ") {
        Some((scope, rest)) if scope.starts_with("pub(") => rest,
        _ => line.strip_prefix("pub ").unwrap_or(line),
    };
    let (kind, rest) = line.strip_prefix("unsafe ").unwrap_or(line).split_once(' ')?;
    // As `with_defaults!` of the scheduler's `Policy` writes it.
    if indent == 0 && rest == "{" && kind.starts_with(char::is_uppercase) {
        return Some(kind);
    }
    // An indented `type` belongs to a trait.
    let defines = matches!(kind, "struct" | "enum" | "union" | "trait") || kind == "type" && indent == 0;
    let name = rest.split(|end: char| !end.is_alphanumeric() && end != '_').next()?;
    (defines && !name.is_empty()).then_some(name)
}

/// Counts unit tests and models out.
#[test]
fn no_two_types_of_the_library_share_a_name() {
    const LEFT_OUT: [&str; 4] = ["bin/", "tests.rs", "tests/", "models.rs"];
    let mut files = BTreeMap::new();
    for name in names_below(&root().join("src")) {
        if !name.ends_with(".rs") || LEFT_OUT.iter().any(|part| name.contains(part)) {
            continue;
        }
        let text = std::fs::read_to_string(root().join("src").join(&name)).expect("UTF-8");
        let code = text
            .lines()
            .take_while(|line| !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test"));
        for defined in code.filter_map(defined_type) {
            let first: &mut String = files.entry(defined.to_owned()).or_insert_with(|| name.clone());
            assert_eq!(*first, name, "two types are named {defined}");
        }
    }
    assert!(files.len() > 300, "{} types", files.len());
}
