//! The driver's functions with their plain numbers, and small helpers.

pub const SMALL: &str = include_str!("../../fixtures/small.ptx");

/// Calls a function of libcuda by name and type; the status as a plain number.
macro_rules! cu {
    ($name:ident($($arg:expr => $ty:ty),* $(,)?)) => {{
        // SAFETY: the name has this type in CUDA's driver API, and the arguments are its.
        unsafe {
            let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
            let name = concat!(stringify!($name), "\0");
            let symbol = libc::dlsym(library, name.as_ptr().cast());
            assert!(!symbol.is_null(), "no {name}");
            let f: unsafe extern "C" fn($($ty),*) -> i32 = std::mem::transmute(symbol);
            f($($arg),*)
        }
    }};
}
pub(crate) use cu;

/// Makes a device's context current.
pub fn retain(device: i32) -> Result<usize, i32> {
    let mut context = 0usize;
    assert_eq!(cu!(cuInit(0 => u32)), 0);
    match cu!(cuDevicePrimaryCtxRetain(&mut context => &mut usize, device => i32)) {
        0 => {
            assert_eq!(cu!(cuCtxSetCurrent(context => usize)), 0);
            Ok(context)
        }
        code => Err(code),
    }
}

pub fn alloc(bytes: usize) -> Result<u64, i32> {
    let mut pointer = 0u64;
    match cu!(cuMemAlloc_v2(&mut pointer => &mut u64, bytes => usize)) {
        0 => Ok(pointer),
        code => Err(code),
    }
}

pub fn info() -> (usize, usize) {
    let (mut free, mut total) = (0usize, 0usize);
    assert_eq!(cu!(cuMemGetInfo_v2(&mut free => &mut usize, &mut total => &mut usize)), 0);
    (free, total)
}

pub fn load(text: &str) -> Result<usize, i32> {
    let text = std::ffi::CString::new(text).expect("no zero inside");
    let mut module = 0usize;
    match cu!(cuModuleLoadData(&mut module => &mut usize, text.as_ptr() => *const i8)) {
        0 => Ok(module),
        code => Err(code),
    }
}

pub fn function(module: usize, name: &str) -> Result<usize, i32> {
    let name = std::ffi::CString::new(name).expect("no zero inside");
    let mut function = 0usize;
    match cu!(cuModuleGetFunction(&mut function => &mut usize, module => usize, name.as_ptr() => *const i8)) {
        0 => Ok(function),
        code => Err(code),
    }
}

pub fn stream() -> usize {
    let mut stream = 0usize;
    assert_eq!(cu!(cuStreamCreate(&mut stream => &mut usize, 0 => u32)), 0);
    stream
}

/// Launches a kernel with pointers to its parameters.
pub fn launch(function: usize, grid: u32, block: u32, shared: u32, stream: usize, params: &[usize]) -> i32 {
    cu!(cuLaunchKernel(
        function => usize, grid => u32, 1 => u32, 1 => u32, block => u32, 1 => u32, 1 => u32,
        shared => u32, stream => usize, params.as_ptr() => *const usize, 0 => usize
    ))
}

pub fn sync(stream: usize) -> i32 {
    cu!(cuStreamSynchronize(stream => usize))
}

/// The report, cut to the card of that number.
pub fn report(card: usize) -> String {
    let mut text = vec![0u8; 1 << 16];
    let n = cu!(fakecuda_report(text.as_mut_ptr() => *mut u8, text.len() => usize)) as usize;
    let text = String::from_utf8(text[..n].to_vec()).expect("text");
    text.split("{\"contexts_made\":")
        .nth(card + 1)
        .unwrap_or_else(|| panic!("card {card} in {text}"))
        .to_string()
}

/// A number of a report.
pub fn number(report: &str, key: &str) -> u64 {
    let rest = report.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} in {report}")).1;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|_| panic!("{key} in {report}"))
}
