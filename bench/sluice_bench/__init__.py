"""The Python programs of bench/ and their parts; Python's standard library alone.

reproduce, whatif, replan, several_clients, cold_start and reader_disk each have a launcher of that
name in bench/, peers in bench/peers, python_link and python_loop in bench/python; bench_pipeline
starts reference.py.
"""
