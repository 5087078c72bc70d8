# Timestamps that user functions return.

cpdef long long timestamp_of(object given, object giver) except? -1
