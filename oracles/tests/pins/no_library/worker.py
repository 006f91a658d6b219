"""An engine whose shared library does not load, in the words of the dynamic linker."""

raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")
