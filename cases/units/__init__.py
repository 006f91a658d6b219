"""Cases of formats that `harness new-format` began: two files a format, and here what they share."""
