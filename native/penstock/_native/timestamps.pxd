# Timestamps that users' functions give.

cpdef long long timestamp_of(object given, object giver) except? -1
