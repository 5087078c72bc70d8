"""Counts the words of a text: lines → words → (word, 1) → key by word → sum.

    penstock run examples/word_count.py --input PATH --output DIR

``--input`` is a text file or a folder of text files.  Every update of a count is written, as
Flink's streaming WordCount does; the last line of a word holds its total.
"""

import argparse
import re

from penstock.common import Encoder, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat

WORD_COUNT = Types.TUPLE([Types.STRING(), Types.LONG()])


def define(env, source_path, output_path):
    """Add the operators of WordCount to an environment."""
    split = re.compile(r"\W+").split
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), source_path)
    sink = FileSink.for_row_format(output_path, Encoder.simple_string_encoder())
    (
        env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "text")
        .flat_map(
            lambda line: [(word, 1) for word in split(line.lower()) if word],
            output_type=WORD_COUNT,
        )
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .sum(1)
        .map(lambda pair: f"{pair[0]} {pair[1]}", output_type=Types.STRING())
        .sink_to(sink.build())
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True, help="a text file or a folder of text files")
    parser.add_argument("--output", required=True, help="the folder that receives the counts")
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    define(env, arguments.input, arguments.output)
    env.execute("WordCount")
