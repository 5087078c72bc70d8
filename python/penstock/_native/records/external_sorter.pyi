from penstock.taskexecutor.operators.external_sort import ExternalSorter

__all__ = ["ExternalSorter"]
