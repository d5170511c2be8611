//! A part of a survey: the numbers of the shots that one of several runs computes.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

use gpusched::{Error, Result};

use crate::document::read_text;

/// Maximum bytes of a list. A list of a million shots with all their numbers has at most eight
/// million.
const LARGEST: u64 = 64 << 20;

/// The shots of a survey that a run computes.
pub enum Part {
    /// Numbers and ranges such as `5,8-20`, and the option that states them.
    List { option: String, ranges: Vec<RangeInclusive<usize>> },
    /// Every `of`th shot from the `nth` one. The sizes of the `of` parts differ by at most one. The
    /// work of a shot depends on the cells that the wave reaches, which differ least between
    /// neighbouring shots.
    Every { nth: usize, of: usize },
}

impl Part {
    /// Returns an empty part, for a run whose shots arrive later.
    pub fn none() -> Part {
        Part::List { option: String::new(), ranges: Vec::new() }
    }

    /// Parses numbers and ranges, separated by commas, blanks or lines.
    pub fn parse(option: &str, text: &str) -> Result<Part> {
        let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        let ranges = words.map(|word| range(word).ok_or_else(|| refuse(option, word)));
        let ranges: Vec<_> = ranges.collect::<Result<_>>()?;
        if ranges.is_empty() {
            return Err(refuse(option, text));
        }
        Ok(Part::List { option: option.to_owned(), ranges })
    }

    pub fn read(path: &Path) -> Result<Part> {
        let option = format!("--shots-from {}", path.display());
        let text = read_text(path, LARGEST, "larger than any list of shots, 64 MiB")?;
        Part::parse(&option, &text)
    }

    /// Parses `N/M`: the Nth of M parts.
    pub fn of_array(text: &str) -> Result<Part> {
        let both = text.split_once('/').and_then(|(nth, of)| Some((number(nth)?, number(of)?)));
        match both {
            Some((nth, of)) if (1..=of).contains(&nth) => Ok(Part::Every { nth, of }),
            _ => {
                Err(Error::argument("--array-index", format!("{text:?}"), "N/M, N from 1 to M, such as 3/10"))
            }
        }
    }

    /// Returns the numbers of the shots, in a survey of `shots` shots. Returns an error for other
    /// numbers.
    pub fn numbers(&self, shots: usize) -> Result<BTreeSet<usize>> {
        match self {
            Part::Every { nth, of } => Ok((*nth..=shots).step_by(*of).collect()),
            Part::List { option, ranges } => {
                if let Some(outside) = ranges.iter().find(|range| *range.start() == 0 || *range.end() > shots)
                {
                    let accepted = format!("numbers of shots of the survey, 1 to {shots}");
                    return Err(Error::argument(option, name(*outside.start(), *outside.end()), accepted));
                }
                Ok(ranges.iter().cloned().flatten().collect())
            }
        }
    }
}

fn refuse(option: &str, value: &str) -> Error {
    Error::argument(option, format!("{value:?}"), "numbers of shots and ranges, such as 5,8-20")
}

fn number(text: &str) -> Option<usize> {
    text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn range(word: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}

/// Formats ascending numbers as a list that `--shots` accepts.
pub fn list(numbers: impl IntoIterator<Item = usize>) -> String {
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some([_, last]) if *last + 1 == number => *last = number,
            _ => ranges.push([number; 2]),
        }
    }
    ranges.into_iter().map(|[first, last]| name(first, last)).collect::<Vec<_>>().join(",")
}

fn name(first: usize, last: usize) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Result<Vec<usize>> {
        Ok(Part::parse("--shots", text)?.numbers(20)?.into_iter().collect())
    }

    #[test]
    fn lists_and_their_numbers_agree() {
        for (text, expected, again) in [
            ("5", vec![5], "5"),
            ("5,8-10", vec![5, 8, 9, 10], "5,8-10"),
            ("20 1\n2-2,\n 3", vec![1, 2, 3, 20], "1-3,20"),
            ("1-3,2-5", vec![1, 2, 3, 4, 5], "1-5"),
        ] {
            assert_eq!(numbers(text).unwrap(), expected, "{text}");
            assert_eq!(list(expected), again);
        }
    }

    #[test]
    fn other_text_is_refused_with_its_value() {
        for text in ["", ",", "x", "1-", "-1", "5-3", "+5", "1--2", "0x5", "99999999999999999999999"] {
            let error = numbers(text).unwrap_err().to_string();
            assert!(error.contains("--shots") && error.contains("such as 5,8-20"), "{text}: {error}");
        }
        for (text, value) in
            [("0", "0"), ("21", "21"), ("3,19-18446744073709551615", "19-18446744073709551615")]
        {
            let error = numbers(text).unwrap_err().to_string();
            assert!(error.contains(value) && error.contains("1 to 20"), "{text}: {error}");
        }
    }

    #[test]
    fn parts_of_an_array_hold_each_shot_once() {
        let parts = (1..=3).map(|nth| Part::of_array(&format!("{nth}/3")).unwrap().numbers(7).unwrap());
        assert_eq!(parts.map(list).collect::<Vec<_>>(), ["1,4,7", "2,5", "3,6"]);
        assert!(Part::of_array("9/9").unwrap().numbers(7).unwrap().is_empty());
        for text in ["", "3", "0/4", "5/4", "1/0", "-1/4", "1/4/4", "1/18446744073709551616"] {
            let error = Part::of_array(text).err().map(|error| error.to_string()).unwrap_or_default();
            let expected = format!("--array-index is {text:?}; accepted: N/M, N from 1 to M");
            assert!(error.contains(&expected), "{text}: {error}");
        }
    }
}
