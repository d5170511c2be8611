//! Modules, their functions, and launches.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use fakecuda::driver::{Answer, Current, Dims, Driver, Function, Object, code};

use crate::{Handle, cuda, enter, out};

/// The options of `cuModuleLoadDataEx` for the log of errors: buffer, and its size.
const ERROR_LOG: c_int = 5;
const ERROR_LOG_SIZE: c_int = 6;

unsafe fn load(
    module: *mut Handle,
    image: *const c_void,
    options: &[c_int],
    values: *mut *mut c_void,
) -> Answer {
    let context = enter("module")?;
    if image.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // A fat binary or cubin contains zeros; only its beginning is read.
    // SAFETY: the caller vouches for a text that ends with zero, or an image.
    let text = unsafe { CStr::from_ptr(image.cast::<c_char>()) }.to_bytes();
    let loaded = Driver::get().load(&context, text);
    // SAFETY: the caller vouches for as many values as options.
    let value = |option| options.iter().position(|o| *o == option).map(|at| unsafe { values.add(at) });
    if let (Some(buffer), Some(size)) = (value(ERROR_LOG), value(ERROR_LOG_SIZE)) {
        let words = loaded.as_ref().err().map_or("", |(_, words)| words.as_str());
        // SAFETY: the buffer has the size beside it, which becomes the length written.
        unsafe {
            let room = *size as usize;
            let length = words.len().min(room.saturating_sub(1));
            if room > 0 && !(*buffer).is_null() {
                (*buffer).cast::<u8>().copy_from_nonoverlapping(words.as_ptr(), length);
                (*buffer).cast::<u8>().add(length).write(0);
            }
            *size = length as *mut c_void;
        }
    }
    // SAFETY: as `out` asks.
    unsafe { out(module, loaded.map_err(|(code, _)| code)?) }
}

cuda! {
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) {
        load(module, image, &[], std::ptr::null_mut())?
    }
    fn cuModuleLoadDataEx(
        module: *mut Handle, image: *const c_void, count: c_uint, options: *const c_int, values: *mut *mut c_void,
    ) {
        let options = if count == 0 { &[] } else { std::slice::from_raw_parts(options, count as usize) };
        load(module, image, options, values)?
    }
    fn cuModuleUnload(module: Handle) {
        Driver::get().visible()?;
        Driver::get().remove(Driver::get().module(module)?.handle);
    }
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        enter("function")?;
        let module = Driver::get().module(module)?;
        if name.is_null() { return Err(code::INVALID_VALUE) }
        let name = CStr::from_ptr(name).to_string_lossy();
        let index = module.program.kernels.iter().position(|k| k.name == name).ok_or(code::NOT_FOUND)?;
        let handle = Driver::get().handle();
        let made = Function { module, index };
        Driver::get().insert(handle, Object::Function(Arc::new(made)));
        out(function, handle)?
    }
    fn cuLaunchKernel(
        function: Handle,
        gx: c_uint, gy: c_uint, gz: c_uint,
        bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, stream: Handle,
        params: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let (_, hang) = match Current::enter("launch") {
            // A scripted failure that a later call reports: the launch itself seems to succeed.
            Err(0) => return Ok(()),
            other => other?,
        };
        let function = Driver::get().function(function)?;
        let stream = Driver::get().stream(stream)?;
        if function.module.context.handle != stream.context.handle { return Err(code::INVALID_HANDLE) }
        let dims = Dims { grid: [gx, gy, gz], block: [bx, by, bz], shared };
        function.check(&dims)?;
        let values = arguments(&function, params, extra)?;
        function.launch(&stream, dims, values, hang);
    }
}

/// Copies the parameters, because the caller may change them after the call.
pub(crate) unsafe fn arguments(
    function: &Function,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer<Vec<u8>> {
    let kernel = function.kernel();
    let mut values = vec![0u8; kernel.param_bytes];
    if !params.is_null() {
        for (k, param) in kernel.params.iter().enumerate() {
            // SAFETY: the caller vouches for a pointer to each parameter of the kernel.
            unsafe {
                let from = (*params.add(k)).cast::<u8>();
                if from.is_null() {
                    return Err(code::INVALID_VALUE);
                }
                values[param.offset..].as_mut_ptr().copy_from_nonoverlapping(from, param.size);
            }
        }
    } else if !extra.is_null() {
        let (mut buffer, mut size, mut at) = (std::ptr::null::<u8>(), None, 0);
        // SAFETY: the caller vouches for a list of names and values that ends with a null.
        unsafe {
            while !(*extra.add(at)).is_null() {
                match *extra.add(at) as usize {
                    1 => buffer = (*extra.add(at + 1)).cast(),
                    2 => size = Some(*(*extra.add(at + 1)).cast::<usize>()),
                    _ => return Err(code::INVALID_VALUE),
                }
                at += 2;
            }
        }
        if buffer.is_null() || size != Some(values.len()) {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the buffer has as many bytes as the parameters.
        unsafe { values.as_mut_ptr().copy_from_nonoverlapping(buffer, values.len()) };
    } else if !kernel.params.is_empty() {
        return Err(code::INVALID_VALUE);
    }
    Ok(values)
}
