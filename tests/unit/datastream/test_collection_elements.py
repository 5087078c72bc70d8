"""Elements of `from_collection` on their way into the job."""

import pytest
from penstock.common import Types
from penstock.datastream.collection_elements import encoded_elements
from penstock.errors import SerializationError
from penstock.network.codec import codec_for


@pytest.mark.parametrize(
    ("type_info", "given", "kept"),
    [
        (Types.BYTE(), [128, 300, -129, 5], [-128, 44, 127, 5]),
        (Types.SHORT(), [40000, -32768], [-25536, -32768]),
        (Types.INT(), [2**31, 2**33 + 5, -1], [-(2**31), 5, -1]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [[2**31]], [[-(2**31)]]),
        (Types.TUPLE([Types.STRING(), Types.BYTE()]), [("a", 256)], [("a", 0)]),
    ],
)
def test_whole_numbers_are_cut_as_in_pyflink(type_info, given, kept):
    decode = codec_for(type_info).decode
    assert [decode(element) for element in encoded_elements(given, type_info)] == kept


@pytest.mark.parametrize(
    ("type_info", "element"),
    [(Types.LONG(), 2**63), (Types.INT(), 2**63), (Types.BYTE(), "1"), (Types.INT(), 1.5)],
)
def test_what_is_no_number_of_64_bits_is_refused(type_info, element):
    with pytest.raises(SerializationError, match="element 0"):
        encoded_elements([element], type_info)
