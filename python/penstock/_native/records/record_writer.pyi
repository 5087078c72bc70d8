from penstock.network.pure.record_writer import RecordWriter as RecordWriter
