//! Fuzzing: runs a target on the inputs of its corpus, and on random changes of them.

pub mod memory;
mod mutate;

use std::any::Any;
use std::collections::HashSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::mutate::mutate;
use crate::{Random, built, root};

const LONGEST: Duration = Duration::from_secs(300);
const LONGEST_SENTENCE: usize = 4000;

pub struct Target {
    pub name: &'static str,
    /// Words and characters of which its texts consist.
    pub words: &'static [&'static str],
    /// Number of inputs, unless `FUZZ_RUNS` is set.
    pub runs: usize,
    pub most: usize,
    pub memory: fn(usize) -> usize,
    /// Passes the input, which is also in the file, to the code. Returns the error message if the
    /// code refuses the input, `None` if it accepts it. Panics if a property does not hold.
    pub give: fn(file: &Path, bytes: &[u8]) -> Option<String>,
    /// Returns initial inputs in addition to the corpus: those whose content depends on the
    /// version.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Returns the folder of a target's inputs, which contains nothing else.
pub fn folder(name: &str) -> PathBuf {
    let folder = built().with_file_name("fuzz").join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for inputs");
    folder
}

pub fn run(target: &Target) {
    let (_, counted) = memory::most_of(|| std::hint::black_box(vec![0_u8; 1000]));
    assert!(counted >= 1000, "the binary lacks the global allocator that counts");
    let folder = folder(target.name);
    let file = folder.join("input");
    let watch = Watch::begin(target.name, &file);
    let give = |bytes: &[u8]| -> String {
        fs::write(&file, bytes).expect("the input's file");
        watch.next();
        let (answer, most) =
            memory::most_of(|| catch_unwind(AssertUnwindSafe(|| (target.give)(&file, bytes))));
        let allowed = (target.memory)(bytes.len());
        let wrong = match &answer {
            Err(panic) => Some(words_of(&**panic)),
            Ok(_) if most > allowed => Some(format!("{most} bytes of memory, {allowed} are enough")),
            Ok(Some(sentence)) => unfit(sentence),
            Ok(None) => None,
        };
        if let Some(wrong) = wrong {
            let kept = folder.with_file_name(format!("{}-failed", target.name));
            fs::copy(&file, &kept).expect("a copy of the input");
            panic!("{}: {wrong}\nthe input: {}", target.name, kept.display());
        }
        answer.ok().flatten().map_or("taken".into(), |sentence| shape(&sentence))
    };

    if let Some(path) = std::env::var_os("FUZZ_FILE") {
        println!("{}", give(&fs::read(path).expect("FUZZ_FILE")));
        return;
    }
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let runs = number("FUZZ_RUNS").map_or(target.runs, |runs| runs as usize);
    let seed = number("FUZZ_SEED").unwrap_or(1);
    let mut seeds = corpus(target.name);
    seeds.extend((target.seeds)());
    let mut heard: HashSet<String> = seeds.iter().map(|bytes| give(bytes)).collect();
    let mut pool = seeds.clone();
    let mut random = Random::new(seed);
    let (begun, mut taken) = (Instant::now(), 0);
    for _ in 0..runs {
        // An input with many changes is seldom close to a valid one, so half of the inputs begin as
        // seeds.
        let from = if random.below(2) == 0 { &seeds } else { &pool };
        let bytes = mutate(&mut random, from, target.words, target.most);
        let answer = give(&bytes);
        taken += usize::from(answer == "taken");
        if heard.insert(answer) {
            pool.push(bytes);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{}: {runs} inputs of seed {seed} in {seconds:.1} s, {taken} taken, {} answers",
        target.name,
        heard.len()
    );
    // Without both answers the changes are too large or too small to test anything.
    assert!(runs < target.runs || (taken > 0 && heard.len() > 2), "{}: too few answers", target.name);
    fs::remove_dir_all(folder).expect("the folder of inputs");
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = root().join("tests/fuzz/corpus").join(name);
    let files = fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file of the corpus").path()).collect();
    paths.sort();
    let all: Vec<_> = paths.iter().map(|path| fs::read(path).expect("a file of the corpus")).collect();
    assert!(!all.is_empty(), "{} is empty", folder.display());
    all
}

fn unfit(sentence: &str) -> Option<String> {
    let what = if sentence.trim().is_empty() {
        "is empty"
    } else if sentence.chars().any(char::is_control) {
        "holds control characters"
    } else if sentence.chars().count() > LONGEST_SENTENCE {
        "is too long"
    } else if sentence.contains("please report") {
        "takes the blame"
    } else {
        return None;
    };
    Some(format!("the sentence {what}: {sentence:?}"))
}

/// Returns the message without quoted parts: messages with equal rests come from one place in the
/// code.
fn shape(sentence: &str) -> String {
    let ours = sentence.split_once("; accepted: ").map_or(sentence, |(_, accepted)| accepted);
    let is_plain = |word: &&str| word.len() < 14 && word.chars().all(|letter| letter.is_ascii_lowercase());
    ours.split(' ').filter(is_plain).take(6).collect::<Vec<_>>().join(" ")
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("of no text"))
}

struct Watch(Arc<Mutex<Option<Instant>>>);

impl Watch {
    fn begin(name: &'static str, file: &Path) -> Watch {
        let begun = Arc::new(Mutex::new(None::<Instant>));
        let (file, weak) = (file.to_owned(), Arc::downgrade(&begun));
        thread::spawn(move || {
            while let Some(begun) = weak.upgrade() {
                let last = *begun.lock().unwrap_or_else(PoisonError::into_inner);
                if last.is_some_and(|last| last.elapsed() > LONGEST) {
                    eprintln!("{name} hangs: {}", file.display());
                    std::process::abort();
                }
                drop(begun);
                thread::sleep(Duration::from_millis(200));
            }
        });
        Watch(begun)
    }

    fn next(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}
