"""Faust for views only: folds that overwrite, rebuilt from the log at every start.

Its delivery is at least once and its transactions do not cover its inputs, so nothing that counts
money or decides runs on it (design §7).
"""
