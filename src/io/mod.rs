//! Files: raw float32, NPY, and writing that leaves a file whole or absent.
