"""Tables as files: what others wrote into a cell does nothing where the file is opened."""

from schemas.analysis import Column, Table
from services.gateway.table_files import file_content


def test_a_name_is_no_formula_in_csv_and_a_number_stays() -> None:
    columns = (Column(name="model", type="text"), Column(name="gain", type="float"))
    table = Table(name="t", title="T", columns=columns, rows=(("=1+1", -2.5),))
    assert file_content(table, "csv") == "model,gain\r\n'=1+1,-2.5\r\n"
