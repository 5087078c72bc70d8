"""The parts of PyFlink's own helpers that are useful without a JVM."""

from penstock.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, {}, ("api_stability_decorators", "java_utils"))
