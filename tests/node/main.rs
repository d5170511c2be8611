//! Leases between processes: each of them is this program once more, told what to do line by line.

#[cfg(target_os = "linux")]
mod deaths;
#[cfg(target_os = "linux")]
mod folders;
#[cfg(target_os = "linux")]
mod hammer;
#[cfg(target_os = "linux")]
mod member;
#[cfg(target_os = "linux")]
mod one_process;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("test result: ok. 0 passed: there are no leases between processes here");
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::panic::catch_unwind;

    let arguments: Vec<String> = std::env::args().collect();
    if arguments
        .get(1)
        .is_some_and(|word| ["--member", "--join", "--full-disk", "--hammer"].contains(&word.as_str()))
    {
        // SAFETY: arms a clock that ends this process if it hangs.
        unsafe { libc::alarm(300) };
    }
    match arguments.get(1).map(String::as_str) {
        Some("--member") => return member::play(&arguments[2..]),
        Some("--join") => return folders::play(),
        Some("--full-disk") => return folders::fill_disk(arguments[2].as_ref()),
        Some("--hammer") => return hammer::play(&arguments[2..]),
        _ => {}
    }
    // A name chooses, as with the usual harness; its other options mean nothing here.
    let chosen: Vec<&String> = arguments[1..].iter().filter(|name| !name.starts_with('-')).collect();
    let cases = [deaths::CASES, folders::CASES, hammer::CASES, one_process::CASES].concat();
    let lists = arguments.iter().any(|word| word == "--list");
    let (mut passed, mut failed) = (0, 0);
    for (name, case) in cases {
        if !chosen.is_empty() && !chosen.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        if lists {
            println!("{name}: test");
            continue;
        }
        let well = catch_unwind(case).is_ok();
        println!("test {name} ... {}", if well { "ok" } else { "FAILED" });
        *(if well { &mut passed } else { &mut failed }) += 1;
    }
    if lists {
        return std::process::ExitCode::SUCCESS;
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    if failed == 0 { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
