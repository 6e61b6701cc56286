"""python/sluice/report.py, which draws figures and pages; taken by its path, as the package may not be built."""
import importlib.util
import os

_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/sluice/report.py")
_spec = importlib.util.spec_from_file_location("sluice_report", _PATH)
report = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(report)
